#pragma once

#include <string>

#include "attend/problem.h"

// What a caller wants written, against the problem. Every check throws rapt::Error, naming the operation.
namespace rapt::inline v1 {

enum class Access { read, write };

void check_view(const char* op, const std::string& name, const ConstView& view, const Shape& shape,
                const Device& device, Access access);
void check_outputs(const char* op, const Problem& problem, const Outputs& outputs);
void check_gradients(const char* op, const Problem& problem, const Inputs& inputs, const AttendOptions& options,
                     const Gradients& gradients);

Shape output_shape(const Problem& problem, std::size_t set);
std::string indexed(const char* name, std::size_t n);  // "name[n]"

}  // namespace rapt::inline v1
