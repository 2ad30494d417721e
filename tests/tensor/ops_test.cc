#include "tensor/ops.h"

#include <array>
#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::check_operation;
using support::Input;
using support::random_input;
using Numbers = std::vector<double>;

std::size_t at(int64_t n) { return static_cast<std::size_t>(n); }

TEST(Operations, Linear) {
  Random random(1);
  for (const auto& [rows, in, out] : {std::tuple{5, 3, 7}, {1, 1, 1}, {17, 9, 33}, {2, 65, 5}})
    for (const bool biased : {false, true})
      for (const bool turned : {false, true}) {
        std::vector<Input> inputs{random_input("x", {rows, 1, in}, random)};
        inputs.push_back(random_input("weight", turned ? support::Sizes{out, in} : support::Sizes{in, out}, random));
        if (biased) inputs.push_back(random_input("bias", {out}, random));
        Numbers y;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t o = 0; o < out; ++o) {
            double sum = biased ? inputs[2].values[at(o)] : 0;
            for (int64_t i = 0; i < in; ++i)
              sum += inputs[0].values[at(r * in + i)] * inputs[1].values[at(turned ? o * in + i : i * out + o)];
            y.push_back(sum);
          }
        check_operation(
            inputs,
            [&](auto& tape, const auto& x) {
              using T = std::decay_t<decltype(x[0])>;
              const T b = x.size() > 2 ? x[2] : T{};
              return std::vector<T>{turned ? linear_transposed(tape, x[0], x[1], b) : linear(tape, x[0], x[1], b)};
            },
            {y});
      }
}

// Rows with gaps between them, from the middle of a wider tensor.
TEST(Operations, LinearOfAView) {
  Random random(2);
  const std::vector<Input> inputs{random_input("x", {3, 2, 9}, random), random_input("weight", {4, 5}, random)};
  Numbers y;
  for (int64_t r = 0; r < 6; ++r)
    for (int64_t o = 0; o < 5; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < 4; ++i) sum += inputs[0].values[at(r * 9 + 3 + i)] * inputs[1].values[at(i * 5 + o)];
      y.push_back(sum);
    }
  check_operation(inputs,
                  [](auto& tape, const auto& x) { return std::vector{linear(tape, x[0].slice(2, 3, 7), x[1])}; }, {y});
}

TEST(Operations, AddWithRepetition) {
  Random random(3);
  const support::Sizes shape{3, 2, 5, 17};
  for (int repeated = 0; repeated < 8; ++repeated) {
    support::Sizes other = shape;
    for (std::size_t d = 0; d < 3; ++d)
      if (repeated & (1 << d)) other[d] = 1;
    const std::vector<Input> inputs{random_input("a", shape, random), random_input("b", other, random)};
    Numbers y;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 2; ++j)
        for (int64_t k = 0; k < 5; ++k)
          for (int64_t n = 0; n < 17; ++n)
            y.push_back(
                inputs[0].values[at(((i * 2 + j) * 5 + k) * 17 + n)] +
                inputs[1].values[at(((i % other[0] * other[1] + j % other[1]) * other[2] + k % other[2]) * 17 + n)]);
    check_operation(inputs, [](auto& tape, const auto& x) { return std::vector{add(tape, x[0], x[1])}; }, {y});
  }
}

TEST(Operations, AddOfATensorToItselfCountsBothGradients) {
  Random random(4);
  const std::vector<Input> inputs{random_input("x", {2, 3}, random)};
  Numbers y;
  for (const double x : inputs[0].values) y.push_back(2 * x);
  check_operation(inputs, [](auto& tape, const auto& x) { return std::vector{add(tape, x[0], x[0])}; }, {y});
}

TEST(Operations, Scale) {
  Random random(5);
  const std::vector<Input> inputs{random_input("x", {3, 2, 9}, random)};
  Numbers y;
  for (int64_t r = 0; r < 6; ++r)
    for (int64_t n = 1; n < 8; ++n) y.push_back(-2.5 * inputs[0].values[at(r * 9 + n)]);
  check_operation(inputs,
                  [](auto& tape, const auto& x) {
                    using T = std::decay_t<decltype(*x[0].data)>;
                    return std::vector{scale(tape, x[0].slice(-1, 1, 8), T(-2.5))};
                  },
                  {y});
}

double activated(Activation kind, double x) {
  switch (kind) {
    case Activation::tanh: return std::tanh(x);
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::relu: return x > 0 ? x : 0;
    case Activation::gelu: break;
  }
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST(Operations, Activations) {
  Random random(6);
  for (const Activation kind : {Activation::tanh, Activation::sigmoid, Activation::relu, Activation::gelu})
    for (const int64_t width : {1, 3, 17, 65}) {
      std::vector<Input> inputs{random_input("x", {3, width}, random, 3)};
      for (double& x : inputs[0].values)
        if (std::abs(x) < 1e-3) x = 0.5;  // relu has no slope at 0
      Numbers y;
      for (const double x : inputs[0].values) y.push_back(activated(kind, x));
      check_operation(inputs, [&](auto& tape, const auto& x) { return std::vector{activate(tape, kind, x[0])}; }, {y});
    }
}

// The bits of both operations one after the other: sizes that fill panels, blocks of panels and depths, and that do not.
template <class T>
std::vector<T> linear_and_activation(Activation kind, std::span<const Input> inputs, bool biased, bool recorded,
                                     bool in_one_pass) {
  support::Held<T> x(inputs[0]), w(inputs[1]), b(inputs[2]);
  Tape<T> tape(recorded);
  const Tensor<T> bias = biased ? b.tensor() : Tensor<T>{};
  const Tensor<T> y = in_one_pass ? linear_activated(tape, x.tensor(), w.tensor(), bias, kind)
                                  : activate(tape, kind, linear(tape, x.tensor(), w.tensor(), bias));
  std::vector<T> all(y.data, y.data + y.count());
  if (recorded)
    for (int64_t n = 0; n < y.count(); ++n) y.grad[n] = static_cast<T>(std::sin(static_cast<double>(n)));
  tape.backward();
  for (const auto* held : {&x, &w, &b}) all.insert(all.end(), held->gradients.begin(), held->gradients.end());
  return all;
}

template <class T>
void activated_in_one_pass() {
  const support::IsaScope scope;
  Random random(16);
  const std::vector<std::array<int64_t, 3>> shapes{{1, 3, 1}, {9, 17, 40}, {3, 300, 33}, {20, 257, 330}};
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const Activation kind : {Activation::tanh, Activation::sigmoid, Activation::relu, Activation::gelu})
      for (const std::array<int64_t, 3>& shape : shapes) {
        const std::vector<Input> inputs{random_input("x", {shape[0], shape[1]}, random),
                                        random_input("w", {shape[1], shape[2]}, random),
                                        random_input("b", {shape[2]}, random)};
        for (const bool biased : {false, true})
          for (const bool recorded : {false, true})
            EXPECT_EQ(linear_and_activation<T>(kind, inputs, biased, recorded, true),
                      linear_and_activation<T>(kind, inputs, biased, recorded, false))
                << rapt::name_of(isa) << ' ' << shape[0] << ' ' << biased << recorded;
      }
  }
}
TEST(Operations, LinearAndItsActivationInOnePass) {
  activated_in_one_pass<float>();
  activated_in_one_pass<double>();
}

template <class T>
void activations_at_the_ends() {
  const support::IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const Activation kind : {Activation::tanh, Activation::sigmoid, Activation::relu, Activation::gelu}) {
      support::Held<T> x({"x", {9}, {-1e4, -200, -30, -1e-6, 0, 1e-6, 30, 200, 1e4}});
      Tape<T> tape;
      const Tensor<T> y = activate(tape, kind, x.tensor());
      for (std::size_t n = 0; n < 9; ++n) {
        const double want = activated(kind, static_cast<double>(x.values[n]));
        EXPECT_NEAR(static_cast<double>(y.data[n]), want, 1e-6 * std::abs(want) + 1e-30) << n;
        y.grad[n] = 1;
      }
      tape.backward();
      for (const T g : x.gradients) EXPECT_TRUE(std::isfinite(g) && g >= T(-0.2) && g <= T(1.2)) << g;
    }
  }
}
TEST(Operations, ActivationsOfLargeNumbersStayFinite) {
  activations_at_the_ends<float>();
  activations_at_the_ends<double>();
}

TEST(Operations, Concatenate) {
  Random random(7);
  const std::vector<Input> inputs{random_input("a", {3, 2, 5}, random), random_input("b", {1, 2, 3}, random),
                                  random_input("c", {3, 1, 1}, random)};
  Numbers y;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t n = 0; n < 5; ++n) y.push_back(inputs[0].values[at((i * 2 + j) * 5 + n)]);
      for (int64_t n = 0; n < 3; ++n) y.push_back(inputs[1].values[at(j * 3 + n)]);
      y.push_back(inputs[2].values[at(i)]);
    }
  check_operation(inputs,
                  [](auto& tape, const auto& x) {
                    using T = std::decay_t<decltype(x[0])>;
                    return std::vector{concatenate(tape, std::span<const T>(x))};
                  },
                  {y});
}

TEST(Operations, EmbedCountsRepeatedIds) {
  Random random(8);
  const std::vector<Input> inputs{random_input("table", {5, 17}, random)};
  const std::vector<int> ids{4, 0, 4, 4, 2, 0};
  Numbers y;
  for (const int id : ids)
    for (int64_t n = 0; n < 17; ++n) y.push_back(inputs[0].values[at(id * 17 + n)]);
  check_operation(inputs,
                  [&](auto& tape, const auto& x) {
                    const auto result = embed(tape, x[0], ids, 2);
                    EXPECT_EQ(to_string(result), "[3, 2, 17]");
                    return std::vector{result};
                  },
                  {y});
}

TEST(Operations, LayerNorm) {
  Random random(9);
  for (const int64_t width : {1, 3, 8, 17, 65}) {
    const std::vector<Input> inputs{random_input("x", {3, 2, width}, random, 2), random_input("gain", {width}, random),
                                    random_input("bias", {width}, random)};
    Numbers y;
    for (int64_t r = 0; r < 6; ++r) {
      double mean = 0;
      double variance = 0;
      const double* x = inputs[0].values.data() + r * width;
      for (int64_t n = 0; n < width; ++n) mean += x[n] / static_cast<double>(width);
      for (int64_t n = 0; n < width; ++n) variance += (x[n] - mean) * (x[n] - mean) / static_cast<double>(width);
      for (int64_t n = 0; n < width; ++n)
        y.push_back((x[n] - mean) / std::sqrt(variance + 1e-3) * inputs[1].values[at(n)] + inputs[2].values[at(n)]);
    }
    check_operation(inputs,
                    [](auto& tape, const auto& x) {
                      using T = std::decay_t<decltype(*x[0].data)>;
                      return std::vector{layer_norm(tape, x[0], x[1], x[2], T(1e-3))};
                    },
                    {y});
  }
}

// A gradient that is not wanted is left out, whichever it is.
TEST(Operations, LayerNormWithoutSomeGradients) {
  Random random(10);
  for (int wanted = 0; wanted < 8; ++wanted) {
    std::vector<Input> inputs{random_input("x", {2, 5}, random), random_input("gain", {5}, random),
                              random_input("bias", {5}, random)};
    for (std::size_t n = 0; n < 3; ++n) inputs[n].differentiated = (wanted & (1 << n)) != 0;
    check_operation(inputs, [](auto& tape, const auto& x) { return std::vector{layer_norm(tape, x[0], x[1], x[2])}; },
                    {});
  }
}

TEST(Operations, Rotate) {
  Random random(11);
  const int64_t steps = 4;
  const int64_t batch = 2;
  const int64_t heads = 3;
  const int64_t dim = 6;
  const int64_t first = 5;
  const std::vector<Input> inputs{random_input("x", {steps, batch, heads * dim}, random)};
  Numbers y;
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t n = 0; n < dim; ++n) {
          const double* x = inputs[0].values.data() + (s * batch + b) * heads * dim + h * dim;
          const double angle = static_cast<double>(first + s) / std::pow(10000.0, static_cast<double>(n / 2 * 2) / dim);
          y.push_back(n % 2 == 0 ? x[n] * std::cos(angle) - x[n + 1] * std::sin(angle)
                                 : x[n - 1] * std::sin(angle) + x[n] * std::cos(angle));
        }
  check_operation(inputs, [&](auto& tape, const auto& x) { return std::vector{rotate(tape, x[0], heads, first)}; },
                  {y});
}

// Several operations in a row, each input used more than once.
TEST(Operations, ComposedGradients) {
  Random random(12);
  const std::vector<Input> inputs{random_input("x", {3, 2, 7}, random), random_input("weight", {7, 7}, random, 0.5),
                                  random_input("gain", {7}, random)};
  check_operation(
      inputs,
      [](auto& tape, const auto& x) {
        const auto a = linear(tape, x[0], x[1], x[2]);
        const auto b = activate(tape, Activation::tanh, add(tape, a, x[0]));
        return std::vector{linear_transposed(tape, layer_norm(tape, b, x[2], x[2]), x[1]), b.slice(0, 1, 2)};
      },
      {});
}

TEST(Operations, BadShapesAreErrors) {
  Tape<float> tape;
  const Tensor<float> x = tape.make({2, 3, 4});
  const std::vector<int> ids{0, 1, 2};
  EXPECT_THROW(linear(tape, x, tape.make({3, 4})), Error);
  EXPECT_THROW(linear(tape, x, tape.make({4, 3}), tape.make({4})), Error);
  EXPECT_THROW(linear_transposed(tape, x, tape.make({4, 3})), Error);
  EXPECT_THROW(add(tape, x, tape.make({2, 3, 1})), Error);
  EXPECT_THROW(add(tape, x, tape.make({2, 2, 4})), Error);
  EXPECT_THROW(add(tape, x, tape.make({3, 4})), Error);
  EXPECT_THROW(add(tape, tape.make({1, 3, 4}), x), Error);
  EXPECT_THROW(concatenate<float>(tape, {}), Error);
  const std::array<Tensor<float>, 2> unequal{x, tape.make({2, 2, 4})};
  EXPECT_THROW(concatenate<float>(tape, unequal), Error);
  EXPECT_THROW(embed(tape, tape.make({2, 4}), ids, 3), Error);  // id 2
  EXPECT_THROW(embed(tape, tape.make({5, 4}), ids, 2), Error);
  EXPECT_THROW(embed(tape, tape.make({5, 4}), ids, 0), Error);
  EXPECT_THROW(embed(tape, tape.make({5, 4}), std::vector<int>{-1}, 1), Error);
  EXPECT_THROW(layer_norm(tape, x, tape.make({3}), tape.make({4})), Error);
  EXPECT_THROW(layer_norm(tape, x, tape.make({4}), tape.make({3})), Error);
  EXPECT_THROW(rotate(tape, x, 4), Error);
  EXPECT_THROW(rotate(tape, x, 0), Error);
  EXPECT_THROW(rotate(tape, x.at(0), 1), Error);
  EXPECT_THROW(dropout(tape, x, 1.0F, 1), Error);
  EXPECT_THROW(dropout(tape, x, -0.1F, 1), Error);
}

}  // namespace
}  // namespace rapt::test
