#include "support/tensors.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace support {
namespace {

using rapt::Random;
using rapt::Tape;
using rapt::Tensor;

constexpr double kStart = 0.375;  // of every gradient: exact in float

double weight_at(std::size_t output, std::int64_t place) { return 2 * Random(911, output, place).uniform() - 1; }

template <class T>
double weighted_sum(const std::vector<Tensor<T>>& outputs) {
  double loss = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    std::int64_t n = 0;
    for_each_place<T>(outputs[o], [&](std::int64_t place) {
      loss += weight_at(o, n++) * static_cast<double>(outputs[o].data[place]);
    });
  }
  return loss;
}

std::vector<double> slopes(std::vector<Input> inputs, std::size_t which, const Computation<double>& computation) {
  constexpr double kStep = 1e-5;
  std::vector<double> result;
  for (double& x : inputs[which].values) {
    const double middle = x;
    x = middle + kStep;
    const double above = loss_of(inputs, computation);
    x = middle - kStep;
    const double below = loss_of(inputs, computation);
    x = middle;
    result.push_back((above - below) / (2 * kStep));
  }
  return result;
}

}  // namespace

std::int64_t count_of(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<double> random_numbers(Random& random, std::int64_t count, double spread) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& x : values) x = static_cast<double>(static_cast<float>(spread * random.normal()));
  return values;
}

Input random_input(const std::string& name, const Sizes& shape, Random& random, double spread) {
  return {name, shape, random_numbers(random, count_of(shape), spread)};
}

template <class T>
Held<T>::Held(const Input& input, double gradient)
    : values(input.values.begin(), input.values.end()),
      gradients(input.values.size(), static_cast<T>(gradient)),
      shape_(input.shape),
      differentiated_(input.differentiated) {}

template <class T>
Tensor<T> Held<T>::tensor(bool with_gradient) {
  Tensor<T> t;
  t.data = values.data();
  t.grad = with_gradient && differentiated_ ? gradients.data() : nullptr;
  t.rank = static_cast<int>(shape_.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    t.shape[d] = shape_[d];
    t.strides[d] = stride;
    stride *= shape_[d];
  }
  return t;
}

template <class T>
void for_each_place(const Tensor<T>& tensor, const std::function<void(std::int64_t)>& visit) {
  std::array<std::int64_t, 4> sizes{1, 1, 1, 1};
  std::array<std::int64_t, 4> strides{};
  for (int d = 0; d < tensor.rank; ++d) {
    sizes[static_cast<std::size_t>(4 - tensor.rank + d)] = tensor.shape[static_cast<std::size_t>(d)];
    strides[static_cast<std::size_t>(4 - tensor.rank + d)] = tensor.strides[static_cast<std::size_t>(d)];
  }
  for (std::int64_t a = 0; a < sizes[0]; ++a)
    for (std::int64_t b = 0; b < sizes[1]; ++b)
      for (std::int64_t c = 0; c < sizes[2]; ++c)
        for (std::int64_t d = 0; d < sizes[3]; ++d)
          visit(a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]);
}

template <class T>
std::vector<double> numbers_of(const Tensor<T>& tensor) {
  std::vector<double> result;
  for_each_place<T>(tensor, [&](std::int64_t place) { result.push_back(static_cast<double>(tensor.data[place])); });
  return result;
}

template <class T>
Outcome run(const std::vector<Input>& inputs, const Computation<T>& computation) {
  Tape<T> tape;
  std::vector<Held<T>> held;
  std::vector<Tensor<T>> tensors;
  for (const Input& input : inputs) held.emplace_back(input, kStart);
  for (Held<T>& h : held) tensors.push_back(h.tensor());
  const std::vector<Tensor<T>> outputs = computation(tape, tensors);
  Outcome outcome;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    outcome.outputs.push_back(numbers_of(outputs[o]));
    std::int64_t n = 0;
    for_each_place<T>(outputs[o],
                      [&](std::int64_t place) { outputs[o].grad[place] += static_cast<T>(weight_at(o, n++)); });
  }
  tape.backward();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outcome.gradients.emplace_back();
    for (const T g : held[i].gradients) outcome.gradients.back().push_back(static_cast<double>(g) - kStart);
    if (!inputs[i].differentiated) outcome.gradients.back().clear();
  }
  return outcome;
}

double loss_of(const std::vector<Input>& inputs, const Computation<double>& computation) {
  Tape<double> tape(false);
  std::vector<Held<double>> held;
  std::vector<Tensor<double>> tensors;
  for (const Input& input : inputs) held.emplace_back(input);
  for (Held<double>& h : held) tensors.push_back(h.tensor(false));
  return weighted_sum(computation(tape, tensors));
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t n = 0; n < got.size(); ++n)
    ASSERT_NEAR(got[n], want[n], tolerance * (1 + std::abs(want[n]))) << what << ", number " << n;
}

void check_operation(const std::vector<Input>& inputs, const Computation<double>& in_double,
                     const Computation<float>& in_float, const std::vector<std::vector<double>>& expected) {
  const IsaScope scope;
  std::vector<std::vector<double>> numeric;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    numeric.push_back(inputs[i].differentiated ? slopes(inputs, i, in_double) : std::vector<double>{});
  const Outcome first = run(inputs, in_double);
  for (const rapt::Isa isa : rapt::available_isas()) {
    rapt::set_isa(isa);
    const std::string on = std::string(" on ") + rapt::name_of(isa);
    const Outcome exact = run(inputs, in_double);
    const Outcome single = run(inputs, in_float);
    for (std::size_t o = 0; o < exact.outputs.size(); ++o) {
      const std::string name = "output " + std::to_string(o) + on;
      if (o < expected.size() && !expected[o].empty()) expect_close(exact.outputs[o], expected[o], 1e-12, name);
      else expect_close(exact.outputs[o], first.outputs[o], 1e-12, name);
      expect_close(single.outputs[o], exact.outputs[o], 2e-5, name + " in float");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = "gradient of " + inputs[i].name + on;
      expect_close(exact.gradients[i], numeric[i], 1e-7, name);
      expect_close(single.gradients[i], exact.gradients[i], 1e-4, name + " in float");
    }
  }
}

template class Held<float>;
template class Held<double>;
template std::vector<double> numbers_of(const Tensor<float>&);
template std::vector<double> numbers_of(const Tensor<double>&);
template void for_each_place(const Tensor<float>&, const std::function<void(std::int64_t)>&);
template void for_each_place(const Tensor<double>&, const std::function<void(std::int64_t)>&);
template Outcome run(const std::vector<Input>&, const Computation<float>&);
template Outcome run(const std::vector<Input>&, const Computation<double>&);

}  // namespace support
