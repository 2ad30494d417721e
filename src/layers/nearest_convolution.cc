#include <algorithm>
#include <cmath>
#include <numeric>

#include "attend/counted.h"
#include "layers/convolution_attention.h"
#include "rapt/error.h"

namespace rapt::inline v1::layers {
namespace {

constexpr double kLargestShift = 4096;
constexpr double kLargestKernel = 1 << 27;  // numbers

double number_at(const Array& array, std::int64_t n) {
  const auto place = static_cast<std::size_t>(n);
  return array.type() == ElementType::f64 ? array.as<double>()[place] : static_cast<double>(array.as<float>()[place]);
}

// Adds W_v^(h) W_out^(h).
void add_head(const QuadraticLayer& layer, std::int64_t h, double* tap) {
  const std::int64_t in = layer.in(), width = layer.value_dim(), out = layer.out();
  for (std::int64_t i = 0; i < in; ++i)
    for (std::int64_t d = 0; d < width; ++d) {
      const double factor = number_at(layer.value, (h * in + i) * width + d);
      for (std::int64_t o = 0; o < out; ++o)
        tap[i * out + o] += factor * number_at(layer.output, (h * width + d) * out + o);
    }
}

// The softmax of −α(δ² − 2δΔ) over the places of one axis, at the place of the shift; the mean over the queries.
struct AxisMean {
  double weight = 0;
  std::int64_t queries = 0;
};

AxisMean axis_weight(double alpha, double center, std::int64_t shift, std::int64_t size, std::int64_t first,
                     std::int64_t stride, std::int64_t count) {
  AxisMean mean;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t query = first + n * stride;
    if (query + shift < 0 || query + shift >= size) continue;
    // Relative to the shift's own score, so that nothing overflows for a head that is sharp.
    const double near = static_cast<double>(shift) - center;
    double sum = 0;
    for (std::int64_t key = 0; key < size; ++key) {
      const double far = static_cast<double>(key - query) - center;
      sum += std::exp(alpha * (near - far) * (near + far));
    }
    mean.weight += 1 / sum;
    ++mean.queries;
  }
  return mean;
}

}  // namespace

NearestConvolution nearest_convolution(const QuadraticLayer& layer) {
  check(layer);
  NearestConvolution result;
  PerAxis reach{0, 0}, step{0, 0};
  for (std::int64_t h = 0; h < layer.heads(); ++h) {
    PerAxis shift{};
    for (std::size_t n = 0; n < 2; ++n) {
      const double center = number_at(layer.center, 2 * h + static_cast<std::int64_t>(n));
      if (std::abs(center) > kLargestShift)
        throw Error("conv: center: head " + std::to_string(h) + ": expected at most " +
                    std::to_string(static_cast<int>(kLargestShift)) + " pixels, got " + std::to_string(center));
      shift[n] = std::llround(center);
      reach[n] = std::max(reach[n], std::abs(shift[n]));
      step[n] = std::gcd(step[n], shift[n]);
    }
    result.shifts.push_back(shift);
  }
  PerAxis size{};
  for (std::size_t n = 0; n < 2; ++n) {
    result.dilation[n] = std::max<std::int64_t>(step[n], 1);
    result.padding[n] = reach[n];
    size[n] = 2 * reach[n] / result.dilation[n] + 1;
  }
  const std::int64_t tap = layer.in() * layer.out();
  if (static_cast<double>(size[0] * size[1]) * static_cast<double>(tap) > kLargestKernel)
    throw Error("conv: center: expected heads near enough for a kernel of at most 2^27 numbers, got heads " +
                counted(reach[0], "row") + " and " + counted(reach[1], "column") + " away");
  Array kernel(ElementType::f64, {size[0], size[1], layer.in(), layer.out()});
  for (std::int64_t h = 0; h < layer.heads(); ++h) {
    const PerAxis& shift = result.shifts[static_cast<std::size_t>(h)];
    const std::int64_t row = (shift[0] + reach[0]) / result.dilation[0],
                       col = (shift[1] + reach[1]) / result.dilation[1];
    add_head(layer, h, kernel.as<double>().data() + (row * size[1] + col) * tap);
  }
  result.kernel = std::move(kernel).to(layer.value.type());
  return result;
}

std::vector<double> weights_at(const QuadraticLayer& layer, const std::vector<PerAxis>& shifts, const PerAxis& image,
                               const Queries& queries) {
  check(layer);
  std::vector<double> weights;
  for (std::int64_t h = 0; h < layer.heads(); ++h) {
    double weight = 1;
    for (std::size_t n = 0; n < 2; ++n) {
      const AxisMean mean =
          axis_weight(number_at(layer.alpha, h), number_at(layer.center, 2 * h + static_cast<std::int64_t>(n)),
                      shifts.at(static_cast<std::size_t>(h))[n], image[n] + 2 * queries.padding[n], queries.first[n],
                      queries.stride[n], queries.count[n]);
      weight *= mean.queries == 0 ? 0 : mean.weight / static_cast<double>(mean.queries);
    }
    weights.push_back(weight);
  }
  return weights;
}

}  // namespace rapt::inline v1::layers
