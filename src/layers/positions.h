#pragma once

#include <string>
#include <string_view>

#include "layers/graph.h"

namespace rapt::inline v1::layers {

// How a sequence tells its steps apart. Relative mechanisms (alibi, t5, shaw, transformer_xl) need none of these.
enum class Positions : std::uint8_t { none, one_hot, sinusoidal, learned, rotary };

struct PositionsShape {
  Positions kind = Positions::sinusoidal;
  bool concatenate = false;  // to the token's vector, instead of being added to it
  std::int64_t width = 0;    // of the tokens
  std::int64_t extra = 0;    // of the encoding when concatenated; 0: max_length for one_hot, else width
  std::int64_t max_length = 0;
};

class PositionalEncoding {
 public:
  PositionalEncoding() = default;
  PositionalEncoding(Parameters& parameters, const std::string& name, const PositionsShape& shape);

  // The width after it.
  std::int64_t width() const;

  // x [steps, batch, width] of the steps first_step, first_step + 1, …
  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x, std::int64_t first_step = 0) const;

 private:
  bool adds_nothing() const { return shape_.kind == Positions::none || shape_.kind == Positions::rotary; }

  PositionsShape shape_;
  ParameterId table_;
};

// PE(t) = sin ω₁t, cos ω₁t, sin ω₂t, …, with ω_k = 10000^(−2k/width), k from 0.
double sinusoid(std::int64_t step, std::int64_t place, std::int64_t width);

}  // namespace rapt::inline v1::layers
