#pragma once

#include "normalizers/contract.h"

namespace rapt::normalizers {

// sink: one more score of every row, without a value: what it takes, no key gets.
struct Softmax {
  static constexpr std::string_view formula = "exp(score) / (Σ exp(score) + exp(sink))";
  static constexpr Threshold threshold = Threshold::exponential;
  static constexpr std::array parameters{ParameterSpec{.name = "sink", .heads = Heads::required, .required = false}};
};

}  // namespace rapt::normalizers
