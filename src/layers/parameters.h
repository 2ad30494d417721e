#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rapt::inline v1::layers {

// The initial value of a parameter.
struct Initial {
  enum class Kind : std::uint8_t { constant, normal, uniform, identity };
  Kind kind = Kind::constant;
  double value = 0;   // constant; mean of normal; factor of identity
  double spread = 0;  // standard deviation of normal; half the range of uniform
  double ratio = 1;   // of each row to the one before, along the first dimension

  static Initial constant(double value) { return {Kind::constant, value, 0, 1}; }
  static Initial normal(double deviation) { return {Kind::normal, 0, deviation, 1}; }
  static Initial uniform(double bound) { return {Kind::uniform, 0, bound, 1}; }
  // Keeps the size of numbers through x·W, forward and backward (Glorot and Bengio 2010).
  static Initial xavier(std::int64_t in, std::int64_t out);
};

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // in the one array that holds all of them
  std::int64_t count = 0;
  Initial initial;
};

struct ParameterId {
  int place = -1;
  explicit operator bool() const { return place >= 0; }
};

// The parameters of a model in one array, which optimisers, checkpoints and sums over threads treat as one vector.
class Parameters {
 public:
  // Throws if the name is taken.
  ParameterId add(std::string name, std::vector<std::int64_t> shape, Initial initial);

  const Parameter& operator[](ParameterId id) const { return list_[static_cast<std::size_t>(id.place)]; }
  const std::vector<Parameter>& list() const { return list_; }
  // The size of the array, padding between parameters included.
  std::int64_t size() const { return size_; }
  // The number of learned parameters.
  std::int64_t count() const;

  // Initial values, each parameter from its own stream of the seed.
  template <class T>
  void initialize(T* values, std::uint64_t seed) const;

 private:
  std::vector<Parameter> list_;
  std::int64_t size_ = 0;
};

}  // namespace rapt::inline v1::layers
