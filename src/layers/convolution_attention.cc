#include "layers/convolution_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/cpu/parallel.h"
#include "rapt/attend.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/threads.h"
#include "tensor/matmul.h"

namespace rapt::inline v1::layers {
namespace {

// Values of some heads are made at a time, so that memory does not grow with the number of heads.
constexpr std::int64_t kNumbersAtATime = std::int64_t{1} << 24;
constexpr double kLargestAlpha = 1e30;
constexpr std::int64_t kLargestHidden = std::int64_t{1} << 20;

void refuse_shape(const char* argument, const Array& array, const std::string& takes) {
  throw Error(std::string("conv: ") + argument + ": expected " + takes + ", got shape " + to_string(array.shape()));
}

std::int64_t heads_at_a_time(const QuadraticLayer& layer, std::int64_t places) {
  return std::clamp<std::int64_t>(kNumbersAtATime / (places * layer.value_dim()), 1, layer.heads());
}

// One pass of a layer over images, one at a time.
template <class T>
class Pass {
 public:
  Pass(const QuadraticLayer& layer, const Array& image, const Queries& queries)
      : layer_(layer), queries_(queries), image_(image.as<T>().data()) {
    const std::int64_t* last = image.shape().data() + image.rank() - 3;
    size_ = {last[0], last[1]};
    grid_ = {last[0] + 2 * queries.padding[0], last[1] + 2 * queries.padding[1]};
    batch_ = image.rank() == 4 ? image.shape()[0] : 1;
    std::vector<std::int64_t> shape{queries.count[0], queries.count[1], layer.out()};
    if (image.rank() == 4) shape.insert(shape.begin(), batch_);
    result_ = Array(element_type_of<T>(), std::move(shape));
  }

  Array run() {
    const std::int64_t places = grid_[0] * grid_[1], width = layer_.value_dim();
    const std::int64_t step = heads_at_a_time(layer_, places);
    Array padded(element_type_of<T>(), {places, layer_.in()});
    Array values(element_type_of<T>(), {step, places, width});
    Array mixed(element_type_of<T>(), {places, step * width});
    for (std::int64_t b = 0; b < batch_; ++b) {
      pad(b, padded.as<T>().data());
      for (std::int64_t first = 0; first < layer_.heads(); first += step) {
        const std::int64_t count = std::min(step, layer_.heads() - first);
        project(padded.as<T>().data(), first, count, values.as<T>().data());
        attend_heads(first, count, values.as<T>().data(), mixed.as<T>().data());
        add_output(b, first, count, mixed.as<T>().data());
      }
    }
    return std::move(result_);
  }

 private:
  void pad(std::int64_t b, T* padded) const {
    const T* source = image_ + b * size_[0] * size_[1] * layer_.in();
    for (std::int64_t r = 0; r < size_[0]; ++r)
      std::copy_n(source + r * size_[1] * layer_.in(), size_[1] * layer_.in(),
                  padded + ((r + queries_.padding[0]) * grid_[1] + queries_.padding[1]) * layer_.in());
  }

  // Z W_v^(h) of each head: [heads, places, Do].
  void project(const T* padded, std::int64_t first, std::int64_t count, T* values) const {
    const std::int64_t in = layer_.in(), width = layer_.value_dim(), cols = grid_[1];
    const T* weights = layer_.value.as<T>().data();
    parallel_for(count * grid_[0], default_threads(), [&](std::int64_t n, int) {
      const Factor<T> x{padded + n % grid_[0] * cols * in, cols, in, in};
      const Factor<T> w{weights + (first + n / grid_[0]) * in * width, in, width, width};
      multiply(x, w, values + n * cols * width, width, false);
    });
  }

  void attend_heads(std::int64_t first, std::int64_t count, const T* values, T* mixed) const {
    const std::int64_t places = grid_[0] * grid_[1], width = layer_.value_dim();
    // The one query and key of W_q = W_k = 0, repeated at every place.
    const std::vector<T> zeros(static_cast<std::size_t>(layer_.hidden));
    ConstView nothing = view(zeros.data(), {1, 1, places, layer_.hidden});
    nothing.strides = {0, 0, 0, 1};
    AttendOptions options;
    options.score.mechanism = &mechanism("quadratic");
    options.score.grid = grid_;
    options.score.parameters = {{"alpha", view(layer_.alpha.as<T>().data() + first, {count})},
                                {"center", view(layer_.center.as<T>().data() + 2 * first, {count, 2})}};
    attend(nothing, nothing, view(values, {1, count, places, width}), view_bshd(mixed, 1, places, count, width),
           options);
  }

  // Adds the heads, side by side, times W_out at the queries; the bias comes with the first heads.
  void add_output(std::int64_t b, std::int64_t first, std::int64_t count, const T* mixed) {
    const std::int64_t width = count * layer_.value_dim(), out = layer_.out();
    const T* bias = layer_.bias ? layer_.bias.as<T>().data() : nullptr;
    T* result = result_.as<T>().data() + b * queries_.count[0] * queries_.count[1] * out;
    const Factor<T> w{layer_.output.as<T>().data() + first * layer_.value_dim() * out, width, out, out};
    parallel_for(queries_.count[0], default_threads(), [&](std::int64_t r, int) {
      const std::int64_t place = (queries_.first[0] + r * queries_.stride[0]) * grid_[1] + queries_.first[1];
      const Factor<T> x{mixed + place * width, queries_.count[1], width, queries_.stride[1] * width};
      T* target = result + r * queries_.count[1] * out;
      if (first == 0 && bias != nullptr)
        for (std::int64_t c = 0; c < queries_.count[1]; ++c) std::copy_n(bias, out, target + c * out);
      multiply(x, w, target, out, first > 0 || bias != nullptr);
    });
  }

  const QuadraticLayer& layer_;
  const Queries& queries_;
  const T* image_;
  PerAxis size_{}, grid_{};
  std::int64_t batch_ = 1;
  Array result_;
};

void check_queries(const Array& image, const Queries& queries) {
  const std::int64_t* last = image.shape().data() + image.rank() - 3;
  for (std::size_t n = 0; n < 2; ++n) {
    const std::int64_t size = last[n] + 2 * queries.padding[n];
    const std::int64_t end = queries.first[n] + (queries.count[n] - 1) * queries.stride[n];
    if (queries.padding[n] < 0 || queries.first[n] < 0 || queries.stride[n] < 1 || queries.count[n] < 1 || end >= size)
      throw Error("conv: queries: expected positions from 0 to " + std::to_string(size - 1) + ", got " +
                  std::to_string(queries.count[n]) + " from " + std::to_string(queries.first[n]) + ", " +
                  std::to_string(queries.stride[n]) + " apart");
  }
}

template <class T>
Difference compare_as(const Array& array, const Array& reference) {
  const std::span<const T> a = array.as<T>(), b = reference.as<T>();
  Difference result;
  double squares = 0, norm = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const double difference = static_cast<double>(a[n]) - static_cast<double>(b[n]);
    // A NaN must not hide behind std::max.
    if (!(std::abs(difference) <= result.largest)) result.largest = std::abs(difference);
    squares += difference * difference;
    norm += static_cast<double>(b[n]) * static_cast<double>(b[n]);
  }
  result.frobenius = std::sqrt(squares);
  result.reference = std::sqrt(norm);
  return result;
}

// The first α of the series at which the weights of the neighbours, e^−α, are far below one rounding.
double sharp_alpha(ElementType type) { return type == ElementType::f64 ? 64 : 32; }

template <class T>
void fill_layer(QuadraticLayer& layer, const Array& kernel, const PerAxis& dilation, double alpha) {
  const std::int64_t rows = kernel.shape()[0], cols = kernel.shape()[1], in = layer.in(), out = layer.out();
  const std::int64_t width = layer.value_dim();
  const std::span<const T> taps = kernel.as<T>();
  for (std::int64_t h = 0; h < rows * cols; ++h) {
    layer.alpha.as<T>()[static_cast<std::size_t>(h)] = static_cast<T>(alpha);
    const PerAxis shift{dilation[0] * (h / cols - rows / 2), dilation[1] * (h % cols - cols / 2)};
    for (std::size_t n = 0; n < 2; ++n)
      layer.center.as<T>()[static_cast<std::size_t>(2 * h) + n] = static_cast<T>(shift[n]);
    const T* tap = taps.data() + h * in * out;
    T* value = layer.value.as<T>().data() + h * in * width;
    T* output = layer.output.as<T>().data() + h * width * out;
    const bool narrow = in <= out;
    for (std::int64_t n = 0; n < std::min(in, out); ++n) (narrow ? value[n * width + n] : output[n * out + n]) = T(1);
    if (narrow) std::copy_n(tap, in * out, output);
    else
      for (std::int64_t n = 0; n < in; ++n) std::copy_n(tap + n * out, out, value + n * width);
  }
}

}  // namespace

std::int64_t QuadraticLayer::parameter_count() const {
  return heads() * in() * (2 * hidden + value_dim()) + heads() * value_dim() * out() + out();
}

void check(const QuadraticLayer& layer) {
  const Array& value = layer.value;
  if (value.rank() != 3 || value.count() == 0) refuse_shape("value", value, "[H, Din, Do], sizes of 1 or more");
  const std::int64_t heads = layer.heads(), width = layer.value_dim();
  const std::string h = std::to_string(heads);
  if (layer.output.rank() != 3 || layer.output.count() == 0 || layer.output.shape()[0] != heads ||
      layer.output.shape()[1] != width)
    refuse_shape("output", layer.output, "[" + h + ", " + std::to_string(width) + ", Dout], as value has it");
  using Sizes = std::vector<std::int64_t>;
  if (layer.alpha.shape() != Sizes{heads}) refuse_shape("alpha", layer.alpha, "[" + h + "], one per head");
  if (layer.center.shape() != Sizes{heads, 2}) refuse_shape("center", layer.center, "[" + h + ", 2]");
  if (layer.bias && layer.bias.shape() != Sizes{layer.out()})
    refuse_shape("bias", layer.bias, "[" + std::to_string(layer.out()) + "], one number for each output channel");
  if (layer.hidden < 1 || layer.hidden > kLargestHidden)
    throw Error("conv: dhid: expected 1 to " + std::to_string(kLargestHidden) + ", got " +
                std::to_string(layer.hidden));
  const std::pair<const char*, const Array*> arrays[] = {{"alpha", &layer.alpha},
                                                         {"center", &layer.center},
                                                         {"value", &layer.value},
                                                         {"output", &layer.output},
                                                         {"bias", &layer.bias}};
  for (const auto& [name, array] : arrays) {
    if (!*array) continue;
    if (array->type() != value.type() || (value.type() != ElementType::f32 && value.type() != ElementType::f64))
      throw Error(std::string("conv: ") + name + ": expected f32 or f64, the same for all arrays, got " +
                  name_of(array->type()));
    largest_finite(*array, name);
  }
  if (largest_finite(layer.alpha, "alpha") > kLargestAlpha)
    throw Error("conv: alpha: expected numbers up to 1e30 in magnitude, got a larger one");
}

QuadraticLayer layer_of_kernel(const Array& kernel, const Array& bias, const PerAxis& dilation,
                               const LayerOptions& options) {
  if (kernel.rank() != 4 || kernel.count() == 0)
    refuse_shape("kernel", kernel, "[K1, K2, Din, Dout], sizes of 1 or more");
  const std::int64_t heads = kernel.shape()[0] * kernel.shape()[1], in = kernel.shape()[2], out = kernel.shape()[3];
  const std::int64_t least = std::min(in, out), width = options.value_dim == 0 ? least : options.value_dim;
  if (width < least || width > kLargestHidden)
    throw Error("conv: do: expected " + std::to_string(least) + " (min(Din, Dout)) to " +
                std::to_string(kLargestHidden) + ", got " + std::to_string(width));
  if (!(options.alpha >= 0 && options.alpha <= kLargestAlpha))
    throw Error("conv: alpha: expected a number above 0, up to 1e30, got " + std::to_string(options.alpha));
  const ElementType type = kernel.type();
  QuadraticLayer layer{.alpha = Array(type, {heads}),
                       .center = Array(type, {heads, 2}),
                       .value = Array(type, {heads, in, width}),
                       .output = Array(type, {heads, width, out}),
                       .bias = bias,
                       .hidden = options.hidden};
  const double alpha = options.alpha == 0 ? sharp_alpha(type) : options.alpha;
  if (type == ElementType::f64) fill_layer<double>(layer, kernel, dilation, alpha);
  else fill_layer<float>(layer, kernel, dilation, alpha);
  check(layer);
  return layer;
}

Queries queries_of(const ConvolutionSizes& sizes) {
  return {.padding = sizes.padding,
          .first = {sizes.kernel[0] / 2 * sizes.dilation[0], sizes.kernel[1] / 2 * sizes.dilation[1]},
          .stride = sizes.stride,
          .count = sizes.output()};
}

Array apply(const QuadraticLayer& layer, const Array& image, const Queries& queries) {
  check(layer);
  if ((image.rank() != 3 && image.rank() != 4) || image.count() == 0 || image.shape().back() != layer.in())
    refuse_shape("image", image, "[R, C, D] or [B, R, C, D] with D = " + std::to_string(layer.in()));
  if (image.type() != layer.value.type())
    throw Error(std::string("conv: image: expected the layer's type, ") + name_of(layer.value.type()) + ", got " +
                name_of(image.type()));
  check_queries(image, queries);
  return image.type() == ElementType::f64 ? Pass<double>(layer, image, queries).run()
                                          : Pass<float>(layer, image, queries).run();
}

double bytes_of(const QuadraticLayer& layer, const std::vector<std::int64_t>& image_shape, const Queries& queries) {
  double places = 1, results = image_shape.size() == 4 ? static_cast<double>(image_shape[0]) : 1;
  for (std::size_t n = 0; n < 2; ++n) {
    places *= static_cast<double>(image_shape[image_shape.size() - 3 + n] + 2 * queries.padding[n]);
    results *= static_cast<double>(queries.count[n]);
  }
  const double width = static_cast<double>(layer.value_dim()), heads = static_cast<double>(layer.heads());
  const double values =
      places * width * std::clamp(static_cast<double>(kNumbersAtATime) / (places * width), 1.0, heads);
  return static_cast<double>(size_of(layer.value.type())) *
         (places * static_cast<double>(layer.in()) + 2 * values + results * static_cast<double>(layer.out()));
}

Difference compare(const Array& array, const Array& reference) {
  if (array.shape() != reference.shape() || array.type() != reference.type())
    throw Error("conv: compare: expected two arrays of one shape and type, got " + to_string(array.shape()) + " and " +
                to_string(reference.shape()));
  return array.type() == ElementType::f64 ? compare_as<double>(array, reference) : compare_as<float>(array, reference);
}

std::vector<AlphaStep> sharpen(QuadraticLayer layer, const Array& image, const Queries& queries,
                               const Array& convolution) {
  std::vector<AlphaStep> steps;
  for (double alpha = 1;; alpha *= 2) {
    if (layer.alpha.type() == ElementType::f64) std::ranges::fill(layer.alpha.as<double>(), alpha);
    else std::ranges::fill(layer.alpha.as<float>(), static_cast<float>(alpha));
    steps.push_back({alpha, compare(apply(layer, image, queries), convolution).largest});
    if (alpha > sharp_alpha(layer.alpha.type()) / 2 && steps.size() > 1 &&
        !(steps.back().difference < steps[steps.size() - 2].difference))
      return steps;
  }
}

}  // namespace rapt::inline v1::layers
