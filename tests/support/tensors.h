#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rapt/threads.h"
#include "tensor/random.h"
#include "tensor/tape.h"

// Tensors that a test owns, and the checks for every operation on a tape.
namespace support {

using Sizes = std::vector<std::int64_t>;

// Restores the instruction set that was active.
class IsaScope {
 public:
  IsaScope() : before_(rapt::active_isa()) {}
  ~IsaScope() { rapt::set_isa(before_); }
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  rapt::Isa before_;
};

struct Input {
  std::string name;
  Sizes shape;
  std::vector<double> values;
  bool differentiated = true;
};

std::int64_t count_of(const Sizes& shape);
std::vector<double> random_numbers(rapt::Random& random, std::int64_t count, double spread = 1);
Input random_input(const std::string& name, const Sizes& shape, rapt::Random& random, double spread = 1);

// Values and gradients of inputs in one number type.
template <class T>
class Held {
 public:
  explicit Held(const Input& input, double gradient = 0);

  rapt::Tensor<T> tensor(bool with_gradient = true);
  std::vector<T> values, gradients;

 private:
  Sizes shape_;
  bool differentiated_;
};

// All numbers of a tensor of any strides, in order; and a visit of their places.
template <class T>
std::vector<double> numbers_of(const rapt::Tensor<T>& tensor);
template <class T>
void for_each_place(const rapt::Tensor<T>& tensor, const std::function<void(std::int64_t)>& visit);

template <class T>
using Computation =
    std::function<std::vector<rapt::Tensor<T>>(rapt::Tape<T>& tape, const std::vector<rapt::Tensor<T>>& inputs)>;

struct Outcome {
  std::vector<std::vector<double>> outputs;
  std::vector<std::vector<double>> gradients;  // of each input; empty where it is not differentiated
};

// Runs it; the loss is Σ output·weight with fixed random weights. Gradients start at a number that is not zero.
template <class T>
Outcome run(const std::vector<Input>& inputs, const Computation<T>& computation);

// Loss of a computation that records nothing.
double loss_of(const std::vector<Input>& inputs, const Computation<double>& computation);

void expect_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                  const std::string& what);

// Outputs against `expected` (left out where empty), gradients of every number against central differences in double,
// float against double, all of it on every instruction set.
void check_operation(const std::vector<Input>& inputs, const Computation<double>& in_double,
                     const Computation<float>& in_float, const std::vector<std::vector<double>>& expected);

// The same for a generic lambda (tape, inputs) → vector of tensors.
template <class F>
void check_operation(const std::vector<Input>& inputs, const F& f, const std::vector<std::vector<double>>& expected) {
  check_operation(inputs, Computation<double>(f), Computation<float>(f), expected);
}

}  // namespace support
