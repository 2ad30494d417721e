#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracle/problem.h"

// The score of one query and one key, and its reverse, for every mechanism: written from the table of formulas.
// T is double for the oracle and float for the naive evaluation that error bounds are measured against.
namespace oracle {

template <class T>
struct Matrix {
  Int rows = 0;
  Int cols = 0;
  std::vector<T> data;

  Matrix() = default;
  Matrix(Int r, Int c) : rows(r), cols(c), data(static_cast<std::size_t>(r * c), T(0)) {}
  T* row(Int r) { return data.data() + r * cols; }
  const T* row(Int r) const { return data.data() + r * cols; }
  T& at(Int r, Int c) { return data[static_cast<std::size_t>(r * cols + c)]; }
  T at(Int r, Int c) const { return data[static_cast<std::size_t>(r * cols + c)]; }
};

template <class T>
T dot(const T* a, const T* b, Int n) {
  T sum(0);
  for (Int d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

// y += g·x
template <class T>
void add(T* y, T g, const T* x, Int n) {
  for (Int d = 0; d < n; ++d) y[d] += g * x[d];
}

// The slope of tanh, naively or, in f64, with all digits where tanh is near 1.
template <class T>
T tanh_slope(T x) {
  if constexpr (std::is_same_v<T, double>) return 1 / (std::cosh(x) * std::cosh(x));
  else return T(1) - std::tanh(x) * std::tanh(x);
}

// What one batch and head reads, and the gradients of it.
template <class T>
struct Head {
  Matrix<T> q, k;
  Matrix<T> dq, dk;
  std::map<std::string, Matrix<T>> parameters, gradients;
  std::map<std::string, double> settings;
  std::array<Int, 2> grid{};
  T scale = T(1);
  Int first_query = 0;  // positions of query 0 and of key 0
  Int first_key = 0;
};

template <class T>
class Formula {
 public:
  explicit Formula(Head<T>& head) : head_(head) {}
  virtual ~Formula() = default;
  virtual void prepare() {}
  virtual T score(Int i, Int j) const = 0;
  // Adds the gradients of g · score(i, j).
  virtual void reverse(Int i, Int j, T g) = 0;
  virtual void finish() {}
  // What a pair adds to the values of its key, a row of a table; null: nothing.
  virtual const T* value_row(Int, Int) const { return nullptr; }
  virtual T* value_row_gradient(Int, Int) { return nullptr; }

 protected:
  Int query_position(Int i) const { return i + head_.first_query; }
  Int key_position(Int j) const { return j + head_.first_key; }
  Int offset(Int i, Int j) const { return key_position(j) - query_position(i); }
  double setting(const char* name, double otherwise) const {
    const double* found = settings_.find(head_.settings, name);
    return found ? *found : otherwise;
  }
  const Matrix<T>& parameter(const char* name) const { return parameters_.at(head_.parameters, name); }
  Matrix<T>& gradient(const char* name) { return gradients_.at(head_.gradients, name); }
  bool has(const char* name) const { return parameters_.find(head_.parameters, name) != nullptr; }

  Head<T>& head_;

 private:
  // Every pair asks for the same few literals, so addresses are compared: comparing texts took half the time.
  template <class Value>
  class Lookup {
   public:
    // Null where there is none of that name.
    Value* find(std::map<std::string, Value>& all, const char* name) {
      for (const auto& [known, value] : found_)
        if (known == name) return value;
      const auto found = all.find(name);
      return found_.emplace_back(name, found == all.end() ? nullptr : &found->second).second;
    }
    Value& at(std::map<std::string, Value>& all, const char* name) {
      Value* found = find(all, name);
      if (!found) throw std::out_of_range(name);
      return *found;
    }

   private:
    std::vector<std::pair<const char*, Value*>> found_;
  };

  mutable Lookup<double> settings_;
  mutable Lookup<Matrix<T>> parameters_;
  Lookup<Matrix<T>> gradients_;
};

// Names of the table, in its order.
const std::vector<std::string>& formula_names();
bool knows(const std::string& name);
// Whether the formula divides by √Dk.
bool divides_by_root(const std::string& name);

template <class T>
std::unique_ptr<Formula<T>> make_formula(const std::string& name, Head<T>& head);

// T5's bucket of a key `offset` after the query: of its encoder, and of its decoder, where keys after the query have none.
Int t5_bucket(Int offset, Int buckets, double max_distance);
Int t5_decoder_bucket(Int offset, Int buckets, double max_distance);

}  // namespace oracle
