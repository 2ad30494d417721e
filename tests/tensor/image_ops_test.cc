#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"
#include "tensor/convolution.h"
#include "tensor/group_norm.h"
#include "tensor/ops.h"
#include "tensor/pooling.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::check_operation;
using support::Input;
using support::random_input;
using Numbers = std::vector<double>;

std::size_t at(int64_t n) { return static_cast<std::size_t>(n); }

struct Case {
  int64_t images, rows, cols, in, out, kernel_rows, kernel_cols, stride, padding;
  bool bias;
};

// By the definition: seven loops.
Numbers convolved(const Case& c, const std::vector<Input>& inputs) {
  const int64_t rows = (c.rows + 2 * c.padding - c.kernel_rows) / c.stride + 1;
  const int64_t cols = (c.cols + 2 * c.padding - c.kernel_cols) / c.stride + 1;
  Numbers y;
  for (int64_t n = 0; n < c.images; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        for (int64_t o = 0; o < c.out; ++o) {
          double sum = c.bias ? inputs[2].values[at(o)] : 0;
          for (int64_t a = 0; a < c.kernel_rows; ++a)
            for (int64_t b = 0; b < c.kernel_cols; ++b) {
              const int64_t r = i * c.stride + a - c.padding, q = j * c.stride + b - c.padding;
              if (r < 0 || r >= c.rows || q < 0 || q >= c.cols) continue;
              for (int64_t d = 0; d < c.in; ++d)
                sum += inputs[0].values[at(((n * c.rows + r) * c.cols + q) * c.in + d)] *
                       inputs[1].values[at(((a * c.kernel_cols + b) * c.in + d) * c.out + o)];
            }
          y.push_back(sum);
        }
  return y;
}

TEST(ImageOperations, Convolution) {
  Random random(1);
  for (const Case& c : {Case{2, 5, 4, 3, 2, 3, 3, 1, 1, true}, Case{1, 6, 6, 1, 3, 3, 3, 2, 1, false},
                        Case{3, 4, 5, 2, 1, 1, 1, 2, 0, false}, Case{1, 3, 7, 2, 2, 3, 5, 1, 0, true},
                        Case{2, 1, 1, 2, 3, 3, 3, 1, 1, true}, Case{1, 2, 2, 1, 1, 3, 3, 3, 3, false},
                        Case{1, 7, 5, 1, 2, 2, 4, 3, 2, true}}) {
    std::vector<Input> inputs{random_input("x", {c.images, c.rows, c.cols, c.in}, random),
                              random_input("kernel", {c.kernel_rows, c.kernel_cols, c.in, c.out}, random)};
    if (c.bias) inputs.push_back(random_input("bias", {c.out}, random));
    check_operation(inputs,
                    [&](auto& tape, const auto& x) {
                      using T = std::decay_t<decltype(x[0])>;
                      return std::vector<T>{convolution(tape, x[0], x[1], x.size() > 2 ? x[2] : T{},
                                                        {.stride = c.stride, .padding = c.padding})};
                    },
                    {convolved(c, inputs)});
  }
}

// So large that an image is gathered in several pieces.
TEST(ImageOperations, ConvolutionInPieces) {
  const Case c{2, 37, 41, 9, 5, 3, 3, 1, 1, true};
  Random random(2);
  const std::vector<Input> inputs{random_input("x", {c.images, c.rows, c.cols, c.in}, random),
                                  random_input("kernel", {3, 3, c.in, c.out}, random),
                                  random_input("bias", {c.out}, random)};
  support::Held<double> x(inputs[0]), kernel(inputs[1]), bias(inputs[2]);
  Tape<double> tape;
  const Tensor<double> y = convolution(tape, x.tensor(), kernel.tensor(), bias.tensor(), {.stride = 1, .padding = 1});
  support::expect_close(support::numbers_of(y), convolved(c, inputs), 1e-10, "output");
  const Numbers weights = support::random_numbers(random, y.count());
  std::copy(weights.begin(), weights.end(), y.grad);
  tape.backward();
  // Σ weights·y is linear in each: its slope along any direction is the sum over that direction alone.
  const auto slope = [&](std::size_t which) {
    std::vector<Input> changed = inputs;
    for (double& v : changed[which].values) v = random.normal();
    const auto zero = [](Input& input) { std::fill(input.values.begin(), input.values.end(), 0.0); };
    if (which != 2) zero(changed[2]);
    else zero(changed[0]);
    const Numbers output = convolved(c, changed);
    double sum = 0, product = 0;
    for (std::size_t n = 0; n < output.size(); ++n) sum += output[n] * weights[n];
    const Numbers& gradient = which == 0 ? x.gradients : which == 1 ? kernel.gradients : bias.gradients;
    for (std::size_t n = 0; n < gradient.size(); ++n) product += gradient[n] * changed[which].values[n];
    EXPECT_NEAR(product, sum, 1e-8 * (1 + std::abs(sum))) << inputs[which].name;
  };
  for (const std::size_t which : {0U, 1U, 2U}) slope(which);
}

TEST(ImageOperations, ConvolutionRefusesWhatDoesNotFit) {
  Tape<float> tape;
  const Tensor<float> x = tape.make({1, 4, 4, 2});
  EXPECT_THROW(convolution(tape, x, tape.make({3, 3, 3, 1}), {}, {}), Error);  // channels
  EXPECT_THROW(convolution(tape, x, tape.make({5, 5, 2, 1}), {}, {}), Error);  // larger than the image
  EXPECT_NO_THROW(convolution(tape, x, tape.make({5, 5, 2, 1}), {}, {.stride = 1, .padding = 1}));
  EXPECT_THROW(convolution(tape, x, tape.make({3, 3, 2, 1}), tape.make({2}), {}), Error);
  EXPECT_THROW(convolution(tape, x, tape.make({3, 3, 2, 1}), {}, {.stride = 0, .padding = 0}), Error);
}

TEST(ImageOperations, LinearOfHeads) {
  Random random(5);
  for (const auto& [heads, rows, in, out] : {std::tuple{3, 5, 4, 2}, {1, 1, 1, 1}, {2, 300, 3, 7}}) {
    const std::vector<Input> inputs{random_input("x", {heads, rows, in}, random),
                                    random_input("weight", {heads * in, out}, random),
                                    random_input("bias", {out}, random)};
    Numbers y;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        double sum = inputs[2].values[at(o)];
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < in; ++i)
            sum += inputs[0].values[at((h * rows + r) * in + i)] * inputs[1].values[at((h * in + i) * out + o)];
        y.push_back(sum);
      }
    check_operation(
        inputs, [](auto& tape, const auto& x) { return std::vector{linear_of_heads(tape, x[0], x[1], x[2])}; }, {y});
  }
  Tape<float> tape;
  EXPECT_THROW(linear_of_heads(tape, tape.make({2, 3, 4}), tape.make({7, 2}), tape.make({2})), Error);
}

TEST(ImageOperations, MeanPool) {
  Random random(3);
  for (const int dim : {0, 1}) {
    const std::vector<Input> inputs{random_input("x", {3, 4, 5}, random)};
    Numbers y;
    for (int64_t kept = 0; kept < (dim == 0 ? 4 : 3); ++kept)
      for (int64_t w = 0; w < 5; ++w) {
        double sum = 0;
        for (int64_t p = 0; p < (dim == 0 ? 3 : 4); ++p)
          sum += inputs[0].values[at(((dim == 0 ? p : kept) * 4 + (dim == 0 ? kept : p)) * 5 + w)];
        y.push_back(sum / (dim == 0 ? 3 : 4));
      }
    check_operation(inputs, [dim](auto& tape, const auto& x) { return std::vector{mean_pool(tape, x[0], dim)}; }, {y});
  }
  Tape<float> tape;
  EXPECT_THROW(mean_pool(tape, tape.make({2, 3}), 0), Error);
  EXPECT_THROW(mean_pool(tape, tape.make({2, 3, 4}), 2), Error);
}

TEST(ImageOperations, GroupNorm) {
  Random random(4);
  constexpr double kEpsilon = 1e-5;
  for (const auto& [images, pixels, channels, groups] :
       {std::tuple{2, 6, 4, 2}, {1, 5, 3, 1}, {3, 2, 6, 6}, {2, 1, 8, 2}}) {
    const std::vector<Input> inputs{random_input("x", {images, pixels, 1, channels}, random),
                                    random_input("gain", {channels}, random), random_input("bias", {channels}, random)};
    Numbers y(inputs[0].values.size());
    const int width = channels / groups;
    for (int n = 0; n < images; ++n)
      for (int g = 0; g < groups; ++g) {
        double mean = 0, variance = 0;
        const auto visit = [&](const auto& f) {
          for (int p = 0; p < pixels; ++p)
            for (int c = g * width; c < (g + 1) * width; ++c) f(at((n * pixels + p) * channels + c), at(c));
        };
        visit([&](std::size_t place, std::size_t) { mean += inputs[0].values[place] / (pixels * width); });
        visit([&](std::size_t place, std::size_t) {
          variance += std::pow(inputs[0].values[place] - mean, 2) / (pixels * width);
        });
        visit([&](std::size_t place, std::size_t c) {
          y[place] = (inputs[0].values[place] - mean) / std::sqrt(variance + kEpsilon) * inputs[1].values[c] +
                     inputs[2].values[c];
        });
      }
    check_operation(inputs,
                    [groups = groups](auto& tape, const auto& x) {
                      return std::vector{group_norm(tape, x[0], x[1], x[2], groups)};
                    },
                    {y});
  }
  Tape<float> tape;
  EXPECT_THROW(group_norm(tape, tape.make({2, 3, 4}), tape.make({4}), tape.make({4}), 3), Error);
  EXPECT_THROW(group_norm(tape, tape.make({2, 3, 4}), tape.make({3}), tape.make({4}), 2), Error);
}

}  // namespace
}  // namespace rapt::test
