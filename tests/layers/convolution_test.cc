#include "layers/convolution_attention.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::layers::test {
namespace {

using Sizes = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

Array random_array(const Sizes& shape, std::mt19937_64& random, ElementType type = ElementType::f64) {
  std::normal_distribution<double> normal;
  Array array(ElementType::f64, shape);
  for (double& value : array.as<double>()) value = normal(random);
  return array.to(type);
}

Numbers numbers(const Array& array) {
  const Array wide = array.to(ElementType::f64);
  return {wide.as<double>().begin(), wide.as<double>().end()};
}

struct Problem {
  Array image, kernel, bias;
  ConvolutionOptions options;
  PerAxis padding{};
};

int draw(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Even and odd kernels, also larger than the image where the padding allows it.
Problem random_problem(std::mt19937_64& random, ElementType type) {
  Problem p;
  const int in = draw(random, 1, 5), out = draw(random, 1, 5);
  p.kernel = random_array({draw(random, 1, 4), draw(random, 1, 4), in, out}, random, type);
  Sizes shape{draw(random, 1, 12), draw(random, 1, 12), in};
  if (draw(random, 0, 1) == 1) shape.insert(shape.begin(), draw(random, 1, 3));
  p.image = random_array(shape, random, type);
  if (draw(random, 0, 1) == 1) p.bias = random_array({out}, random, type);
  for (std::size_t n = 0; n < 2; ++n) {
    p.options.dilation[n] = draw(random, 1, 3);
    p.options.stride[n] = draw(random, 1, 3);
    p.padding[n] = p.kernel.shape()[n] / 2 * p.options.dilation[n];
  }
  if (draw(random, 0, 1) == 1) {
    for (std::size_t n = 0; n < 2; ++n) {
      const std::int64_t span = p.options.dilation[n] * (p.kernel.shape()[n] - 1) + 1;
      const std::int64_t size = shape[shape.size() - 3 + n];
      p.padding[n] = std::max<std::int64_t>(0, (span - size + 1) / 2) + draw(random, 0, 3);
    }
    p.options.padding = p.padding;
  }
  return p;
}

// Straight from the definition, with an image that is 0 outside its bounds.
Numbers naive(const Problem& p, Sizes& shape) {
  const Numbers x = numbers(p.image), w = numbers(p.kernel);
  const Sizes& k = p.kernel.shape();
  const bool batched = p.image.rank() == 4;
  const std::int64_t batch = batched ? p.image.shape()[0] : 1;
  const std::int64_t rows = p.image.shape()[batched ? 1 : 0], cols = p.image.shape()[batched ? 2 : 1];
  const auto pixel = [&](std::int64_t b, std::int64_t r, std::int64_t c, std::int64_t d) {
    if (r < 0 || c < 0 || r >= rows || c >= cols) return 0.0;
    return x[static_cast<std::size_t>(((b * rows + r) * cols + c) * k[2] + d)];
  };
  std::int64_t heights = 0, widths = 0;
  while (heights * p.options.stride[0] + p.options.dilation[0] * (k[0] - 1) < rows + 2 * p.padding[0]) ++heights;
  while (widths * p.options.stride[1] + p.options.dilation[1] * (k[1] - 1) < cols + 2 * p.padding[1]) ++widths;
  shape = {heights, widths, k[3]};
  if (batched) shape.insert(shape.begin(), batch);
  Numbers out;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < heights; ++i)
      for (std::int64_t j = 0; j < widths; ++j)
        for (std::int64_t o = 0; o < k[3]; ++o) {
          double sum = p.bias ? numbers(p.bias)[static_cast<std::size_t>(o)] : 0;
          for (std::int64_t a = 0; a < k[0]; ++a)
            for (std::int64_t c = 0; c < k[1]; ++c)
              for (std::int64_t d = 0; d < k[2]; ++d)
                sum += pixel(b, i * p.options.stride[0] + a * p.options.dilation[0] - p.padding[0],
                             j * p.options.stride[1] + c * p.options.dilation[1] - p.padding[1], d) *
                       w[static_cast<std::size_t>(((a * k[1] + c) * k[2] + d) * k[3] + o)];
          out.push_back(sum);
        }
  return out;
}

void expect_near(const Array& array, const Sizes& shape, const Numbers& expected, double tolerance) {
  ASSERT_EQ(array.shape(), shape);
  const Numbers got = numbers(array);
  for (std::size_t n = 0; n < got.size(); ++n) ASSERT_NEAR(got[n], expected[n], tolerance) << "number " << n;
}

TEST(Convolution, AttentionIsTheConvolution) {
  std::mt19937_64 random(1);
  for (int n = 0; n < 150; ++n) {
    SCOPED_TRACE(n);
    const ElementType type = n % 3 == 0 ? ElementType::f32 : ElementType::f64;
    const double tolerance = n % 3 == 0 ? 1e-4 : 1e-12;
    const Problem p = random_problem(random, type);
    Sizes shape;
    const Numbers expected = naive(p, shape);
    expect_near(convolve(p.image, p.kernel, p.bias, p.options), shape, expected, tolerance);
    const ConvolutionSizes sizes = convolution_sizes(p.image, p.kernel, p.options);
    EXPECT_EQ(sizes.output_shape(), shape);
    EXPECT_EQ(sizes.padding, p.padding);
    const std::int64_t least = std::min(sizes.in, sizes.out);
    const LayerOptions options{.value_dim = n % 2 == 0 ? 0 : least + draw(random, 0, 2), .hidden = draw(random, 1, 7)};
    const QuadraticLayer layer = layer_of_kernel(p.kernel, p.bias, p.options.dilation, options);
    EXPECT_EQ(layer.heads(), sizes.kernel[0] * sizes.kernel[1]);
    EXPECT_EQ(layer.value_dim(), options.value_dim == 0 ? least : options.value_dim);
    expect_near(apply(layer, p.image, queries_of(sizes)), shape, expected, tolerance);
  }
}

TEST(Convolution, FactorsGiveTheKernelExactly) {
  std::mt19937_64 random(2);
  for (const auto& [in, out, width] : {std::array{3, 5, 3}, {5, 3, 3}, {4, 4, 6}, {1, 7, 1}, {6, 1, 2}}) {
    const Array kernel = random_array({2, 3, in, out}, random);
    const QuadraticLayer layer = layer_of_kernel(kernel, Array(), {1, 1}, {.value_dim = width});
    const Numbers value = numbers(layer.value), output = numbers(layer.output), taps = numbers(kernel);
    for (int h = 0; h < 6; ++h)
      for (int i = 0; i < in; ++i)
        for (int o = 0; o < out; ++o) {
          double sum = 0;
          for (int d = 0; d < width; ++d)
            sum += value[static_cast<std::size_t>((h * in + i) * width + d)] *
                   output[static_cast<std::size_t>((h * width + d) * out + o)];
          ASSERT_EQ(sum, taps[static_cast<std::size_t>((h * in + i) * out + o)]);
        }
  }
}

TEST(Convolution, CentersAreWhereTheTapsLook) {
  const Array kernel(ElementType::f64, {3, 2, 1, 1});
  const QuadraticLayer layer = layer_of_kernel(kernel, Array(), {1, 3}, {.alpha = 5, .hidden = 3});
  EXPECT_EQ(numbers(layer.center), (Numbers{-1, -3, -1, 0, 0, -3, 0, 0, 1, -3, 1, 0}));
  EXPECT_EQ(numbers(layer.alpha), Numbers(6, 5.0));
  // N_h·D_in(2·D_hid + D_o) + N_h·D_o·D_out + D_out
  EXPECT_EQ(layer.parameter_count(), 6 * 1 * (2 * 3 + 1) + 6 * 1 * 1 + 1);
}

// An asymmetric kernel distinguishes a convolution from its mirror image.
TEST(Convolution, IsNotFlipped) {
  const Numbers x{1, 2, 3, 4, 5, 6, 7, 8, 9}, w{0, 0, 0, 0, 0, 1, 0, 0, 0};
  const Array image = Array::of<double>({3, 3, 1}, x), kernel = Array::of<double>({3, 3, 1, 1}, w);
  const Numbers right{2, 3, 0, 5, 6, 0, 8, 9, 0};
  EXPECT_EQ(numbers(convolve(image, kernel, Array())), right);
  const QuadraticLayer layer = layer_of_kernel(kernel, Array(), {1, 1}, {});
  expect_near(apply(layer, image, queries_of(convolution_sizes(image, kernel, {}))), {3, 3, 1}, right, 1e-14);
}

TEST(Convolution, TheDifferenceFallsToRounding) {
  std::mt19937_64 random(3);
  for (const ElementType type : {ElementType::f32, ElementType::f64}) {
    const Array image = random_array({2, 14, 11, 4}, random, type), kernel = random_array({3, 3, 4, 6}, random, type);
    const QuadraticLayer layer = layer_of_kernel(kernel, Array(), {1, 1}, {});
    const ConvolutionSizes sizes = convolution_sizes(image, kernel, {});
    const auto steps = sharpen(layer, image, queries_of(sizes), convolve(image, kernel, Array()));
    const bool wide = type == ElementType::f64;
    ASSERT_GE(steps.size(), wide ? 7U : 6U);
    EXPECT_LE(steps.size(), 10U);
    EXPECT_GT(steps[0].difference, 1);
    for (std::size_t n = 0; n < steps.size(); ++n) {
      EXPECT_EQ(steps[n].alpha, std::ldexp(1.0, static_cast<int>(n)));
      // The weights of the neighbours are e^−α.
      if (n >= 4) continue;
      EXPECT_NEAR(std::log(steps[n + 1].difference / steps[n].difference), -steps[n].alpha, 1.5);
    }
    EXPECT_LT(steps.back().difference, wide ? 2e-14 : 1e-5);
    EXPECT_GE(steps.back().difference, steps[steps.size() - 2].difference);
  }
}

TEST(Convolution, ResultsDoNotDependOnThreads) {
  std::mt19937_64 random(4);
  const Array image = random_array({2, 17, 19, 5}, random, ElementType::f32);
  const Array kernel = random_array({3, 3, 5, 7}, random, ElementType::f32);
  const QuadraticLayer layer = layer_of_kernel(kernel, Array(), {2, 1}, {.alpha = 0.7});
  const ConvolutionOptions options{.dilation = {2, 1}};
  const int before = default_threads();
  std::vector<Numbers> results;
  for (const int threads : {1, 2, 5}) {
    set_default_threads(threads);
    results.push_back(numbers(apply(layer, image, queries_of(convolution_sizes(image, kernel, options)))));
  }
  set_default_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(NearestConvolution, GivesTheKernelBack) {
  std::mt19937_64 random(5);
  for (const auto& [rows, cols, down, right] :
       {std::array<std::int64_t, 4>{3, 3, 1, 1}, {5, 3, 2, 1}, {1, 3, 1, 3}, {1, 1, 1, 1}}) {
    const Array kernel = random_array({rows, cols, 3, 2}, random);
    const NearestConvolution nearest = nearest_convolution(layer_of_kernel(kernel, Array(), {down, right}, {}));
    EXPECT_EQ(nearest.kernel.shape(), kernel.shape());
    EXPECT_EQ(numbers(nearest.kernel), numbers(kernel));
    EXPECT_EQ(nearest.dilation, (PerAxis{rows > 1 ? down : 1, cols > 1 ? right : 1}));
    EXPECT_EQ(nearest.padding, (PerAxis{rows / 2 * down, cols / 2 * right}));
  }
  // An even kernel becomes an odd one with zeros after it.
  const Array even = random_array({2, 2, 1, 1}, random);
  const Numbers w = numbers(even);
  EXPECT_EQ(numbers(nearest_convolution(layer_of_kernel(even, Array(), {1, 1}, {})).kernel),
            (Numbers{w[0], w[1], 0, w[2], w[3], 0, 0, 0, 0}));
}

TEST(NearestConvolution, RoundsCentersAndAddsHeads) {
  std::mt19937_64 random(6);
  QuadraticLayer layer;
  layer.alpha = Array::of<double>({3}, Numbers{40, 50, 60});
  layer.center = Array::of<double>({3, 2}, Numbers{0.9, -0.1, 1.2, 0.2, 0, -1.1});
  layer.value = Array::of<double>({3, 1, 2}, Numbers{1, 2, 3, 4, 5, 6});
  layer.output = Array::of<double>({3, 2, 1}, Numbers{1, 1, 1, 2, 2, 1});
  const NearestConvolution nearest = nearest_convolution(layer);
  EXPECT_EQ(nearest.shifts, (std::vector<PerAxis>{{1, 0}, {1, 0}, {0, -1}}));
  EXPECT_EQ(numbers(nearest.kernel), (Numbers{0, 0, 0, 16, 0, 0, 0, 3 + 11, 0}));
  const Array image = random_array({9, 8, 1}, random);
  const Queries queries{.padding = nearest.padding, .first = nearest.padding, .count = {9, 8}};
  const std::vector<double> weights = weights_at(layer, nearest.shifts, {9, 8}, queries);
  for (const double weight : weights) EXPECT_GT(weight, 0.999);
  const Difference difference =
      compare(apply(layer, image, queries), convolve(image, nearest.kernel, Array(), {.padding = nearest.padding}));
  EXPECT_LT(difference.largest, 1e-6);
  EXPECT_GE(difference.frobenius, difference.largest);
}

TEST(NearestConvolution, WeightsAreThoseOfTheSoftmax) {
  QuadraticLayer layer;
  layer.alpha = Array::of<double>({2}, Numbers{0.3, -0.2});
  layer.center = Array::of<double>({2, 2}, Numbers{0.4, -1.3, 0.1, 0.2});
  layer.value = Array::of<double>({2, 1, 1}, Numbers{1, 1});
  layer.output = layer.value;
  const Queries queries{.padding = {1, 0}, .first = {1, 0}, .count = {4, 5}};
  const std::vector<PerAxis> shifts = nearest_convolution(layer).shifts;
  const std::vector<double> weights = weights_at(layer, shifts, {4, 5}, queries);
  for (std::size_t h = 0; h < 2; ++h) {
    const double alpha = numbers(layer.alpha)[h];
    const double row = numbers(layer.center)[2 * h], col = numbers(layer.center)[2 * h + 1];
    double total = 0;
    int count = 0;
    for (int i = 1; i <= 4; ++i)
      for (int j = 0; j < 5; ++j) {
        double at = -1, sum = 0;
        for (int r = 0; r < 6; ++r)
          for (int c = 0; c < 5; ++c) {
            const double down = r - i, right = c - j;
            const double w = std::exp(-alpha * (down * down + right * right - 2 * down * row - 2 * right * col));
            sum += w;
            if (r - i == shifts[h][0] && c - j == shifts[h][1]) at = w;
          }
        if (at < 0) continue;
        total += at / sum;
        ++count;
      }
    EXPECT_NEAR(weights[h], total / count, 1e-12);
  }
}

TEST(ConvolutionErrors, BadInputIsRefused) {
  std::mt19937_64 random(7);
  const Array image = random_array({5, 5, 2}, random), kernel = random_array({3, 3, 2, 4}, random);
  const auto sizes = [&](const Array& x, const Array& k, const ConvolutionOptions& o = {}) {
    return convolution_sizes(x, k, o);
  };
  EXPECT_THROW(sizes(image, random_array({3, 3, 2}, random)), Error);
  EXPECT_THROW(sizes(image, Array(ElementType::f64, {0, 3, 2, 4})), Error);
  EXPECT_THROW(sizes(random_array({5, 5}, random), kernel), Error);
  EXPECT_THROW(sizes(random_array({5, 5, 3}, random), kernel), Error);
  EXPECT_THROW(sizes(image, kernel, {.dilation = {0, 1}}), Error);
  EXPECT_THROW(sizes(image, kernel, {.stride = {1, -1}}), Error);
  EXPECT_THROW(sizes(image, kernel, {.padding = PerAxis{-1, 0}}), Error);
  EXPECT_THROW(sizes(image, kernel, {.dilation = {3, 1}, .padding = PerAxis{0, 0}}), Error);
  EXPECT_THROW(sizes(image, kernel, {.dilation = {std::int64_t{1} << 62, 1}}), Error);
  EXPECT_THROW(convolve(image, kernel, random_array({3}, random)), Error);
  EXPECT_THROW(convolve(image, kernel.to(ElementType::f32), Array()), Error);
  EXPECT_THROW(layer_of_kernel(kernel, Array(), {1, 1}, {.value_dim = 1}), Error);
  EXPECT_THROW(layer_of_kernel(kernel, Array(), {1, 1}, {.alpha = -1}), Error);
  EXPECT_THROW(layer_of_kernel(kernel, Array(), {1, 1}, {.hidden = 0}), Error);
  EXPECT_THROW(layer_of_kernel(kernel, random_array({5}, random), {1, 1}, {}), Error);
  Array bad = kernel;
  bad.as<double>()[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(layer_of_kernel(bad, Array(), {1, 1}, {}), Error);
  const QuadraticLayer layer = layer_of_kernel(kernel, Array(), {1, 1}, {});
  EXPECT_THROW(apply(layer, image, {.count = {6, 5}}), Error);
  EXPECT_THROW(apply(layer, image.to(ElementType::f32), {.count = {5, 5}}), Error);
  EXPECT_THROW(apply(layer, random_array({5, 5, 3}, random), {.count = {5, 5}}), Error);
}

// One array or one shape of a layer is wrong at a time.
TEST(ConvolutionErrors, BadLayersAreRefused) {
  std::mt19937_64 random(8);
  const auto refused = [&](const std::function<void(QuadraticLayer&)>& change) {
    QuadraticLayer layer = layer_of_kernel(random_array({3, 3, 2, 4}, random), random_array({4}, random), {1, 1}, {});
    change(layer);
    EXPECT_THROW(nearest_convolution(layer), Error);
    EXPECT_THROW(apply(layer, random_array({5, 5, 2}, random), {.count = {5, 5}}), Error);
  };
  refused([&](QuadraticLayer& l) { l.alpha = random_array({8}, random); });
  refused([&](QuadraticLayer& l) { l.center = random_array({9, 3}, random); });
  refused([&](QuadraticLayer& l) { l.value = random_array({9, 2, 3}, random); });
  refused([&](QuadraticLayer& l) { l.output = random_array({9, 2}, random); });
  refused([&](QuadraticLayer& l) { l.bias = random_array({5}, random); });
  refused([&](QuadraticLayer& l) { l.bias = random_array({4}, random, ElementType::f32); });
  refused([&](QuadraticLayer& l) { l.alpha.as<double>()[0] = 1e31; });
  refused([&](QuadraticLayer& l) { l.center.as<double>()[3] = std::numeric_limits<double>::infinity(); });
  QuadraticLayer far = layer_of_kernel(random_array({1, 1, 2, 4}, random), Array(), {1, 1}, {});
  far.center.as<double>()[0] = 1e9;
  EXPECT_THROW(nearest_convolution(far), Error);
}

}  // namespace
}  // namespace rapt::layers::test
