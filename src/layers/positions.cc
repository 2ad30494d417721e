#include "layers/positions.h"

#include <array>
#include <cmath>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::layers {

double sinusoid(std::int64_t step, std::int64_t place, std::int64_t width) {
  const std::int64_t pair = place / 2;
  const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
  const double angle = static_cast<double>(step) * frequency;
  return place % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

PositionalEncoding::PositionalEncoding(Parameters& parameters, const std::string& name, const PositionsShape& shape)
    : shape_(shape) {
  if (shape_.extra == 0) shape_.extra = shape_.kind == Positions::one_hot ? shape_.max_length : shape_.width;
  const std::int64_t places = shape_.concatenate ? shape_.extra : shape_.width;
  if (shape_.kind == Positions::one_hot && places < shape_.max_length)
    throw Error(name + ": expected one-hot positions of at least the longest sequence, " +
                counted(shape_.max_length, "number") + (shape_.concatenate ? "" : ", or concatenated ones") + ", got " +
                std::to_string(places));
  if (shape_.kind == Positions::learned)
    table_ = parameters.add(name, {shape_.max_length, places}, Initial::normal(0.02));
}

std::int64_t PositionalEncoding::width() const {
  return shape_.width + (shape_.concatenate && !adds_nothing() ? shape_.extra : 0);
}

template <class T>
Tensor<T> PositionalEncoding::operator()(Graph<T>& graph, const Tensor<T>& x, std::int64_t first_step) const {
  if (adds_nothing()) return x;
  const std::int64_t steps = x.size(0);
  const std::int64_t end = first_step + steps;
  const std::int64_t wide = shape_.concatenate ? shape_.extra : shape_.width;
  if (end > shape_.max_length && shape_.kind != Positions::sinusoidal)
    throw Error("positions: expected a sequence of up to " + counted(shape_.max_length, "step") +
                ", the longest the model was made for, got " + std::to_string(end));
  Tensor<T> encoding;
  if (shape_.kind == Positions::learned) {
    encoding = graph.get(table_).slice(0, first_step, end).reshape({steps, 1, wide});
  } else {
    encoding.data = graph.tape.scratch(steps * wide);
    encoding = [&] {
      Tensor<T> t = encoding;
      t.rank = 1;
      t.shape[0] = steps * wide;
      t.strides[0] = 1;
      return t.reshape({steps, 1, wide});
    }();
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t n = 0; n < wide; ++n)
        encoding.data[s * wide + n] = shape_.kind == Positions::one_hot
                                          ? static_cast<T>(first_step + s == n ? 1 : 0)
                                          : static_cast<T>(sinusoid(first_step + s, n, wide));
  }
  if (!shape_.concatenate) return add(graph.tape, x, encoding);
  const std::array<Tensor<T>, 2> parts{x, encoding};
  return concatenate<T>(graph.tape, parts);
}

template Tensor<float> PositionalEncoding::operator()(Graph<float>&, const Tensor<float>&, std::int64_t) const;
template Tensor<double> PositionalEncoding::operator()(Graph<double>&, const Tensor<double>&, std::int64_t) const;

}  // namespace rapt::inline v1::layers
