#pragma once

#include <cstddef>

#include "rapt/dtype.h"

// The storage types by their definitions, without the library's conversions.
namespace support {

// The nearest number that the type holds, ties to even.
double round_to(rapt::Dtype dtype, double value);

// Half the distance between neighbours of the type around a number of this size.
double half_step(rapt::Dtype dtype, double value);

double load(rapt::Dtype dtype, const std::byte* at);
void store(rapt::Dtype dtype, double value, std::byte* at);

// The type that arithmetic is done in.
constexpr rapt::Dtype compute_type(rapt::Dtype dtype) {
  return dtype == rapt::Dtype::f64 ? rapt::Dtype::f64 : rapt::Dtype::f32;
}

const char* label(rapt::Dtype dtype);

}  // namespace support
