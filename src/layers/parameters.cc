#include "layers/parameters.h"

#include <algorithm>
#include <cmath>

#include "rapt/error.h"
#include "tensor/random.h"

namespace rapt::inline v1::layers {
namespace {

constexpr std::int64_t kAlign = 16;  // numbers: every parameter starts at a cache line

double draw(const Initial& initial, Random& random) {
  switch (initial.kind) {
    case Initial::Kind::normal: return initial.value + initial.spread * random.normal();
    case Initial::Kind::uniform: return initial.value + initial.spread * (2 * random.uniform() - 1);
    default: return initial.value;
  }
}

}  // namespace

Initial Initial::xavier(std::int64_t in, std::int64_t out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}

ParameterId Parameters::add(std::string name, std::vector<std::int64_t> shape, Initial initial) {
  Parameter p;
  p.count = 1;
  for (const std::int64_t n : shape) {
    if (n < 1)
      throw Error(std::string("parameter '") + name + "': expected sizes of 1 or more, got " + std::to_string(n));
    p.count *= n;
  }
  for (const Parameter& other : list_)
    if (other.name == name) throw Error("parameter '" + name + "': expected each name once, got it twice");
  p.name = std::move(name);
  p.shape = std::move(shape);
  p.offset = size_;
  p.initial = initial;
  size_ += (p.count + kAlign - 1) / kAlign * kAlign;
  list_.push_back(std::move(p));
  return {static_cast<int>(list_.size()) - 1};
}

std::int64_t Parameters::count() const {
  std::int64_t total = 0;
  for (const Parameter& p : list_) total += p.count;
  return total;
}

template <class T>
void Parameters::initialize(T* values, std::uint64_t seed) const {
  std::fill_n(values, size_, T(0));
  for (std::size_t n = 0; n < list_.size(); ++n) {
    const Parameter& p = list_[n];
    Random random(seed, 0x706172616dU, n);
    const std::int64_t rows = p.shape.empty() ? 1 : p.shape[0];
    const std::int64_t row = p.count / rows;
    const std::int64_t last = p.shape.empty() ? 1 : p.shape.back();
    double factor = 1;
    for (std::int64_t r = 0; r < rows; ++r, factor *= p.initial.ratio)
      for (std::int64_t c = 0; c < row; ++c) {
        double x = draw(p.initial, random) * factor;
        if (p.initial.kind == Initial::Kind::identity && (r * row + c) / last % last != (r * row + c) % last) x = 0;
        values[p.offset + r * row + c] = static_cast<T>(x);
      }
  }
}

template void Parameters::initialize(float*, std::uint64_t) const;
template void Parameters::initialize(double*, std::uint64_t) const;

}  // namespace rapt::inline v1::layers
