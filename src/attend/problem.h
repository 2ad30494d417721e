#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "rapt/attend.h"

// A call to attend() or attend_backward(), checked and put into one form that every path reads.
namespace rapt {

// The matrix of one batch and head: rows of contiguous numbers. Strides count elements.
struct MatrixRef {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t stride = 0;
};

// A [batches, heads, rows, dim] array. Batches and heads may be fewer than the problem's: they are shared.
struct Operand {
  void* data = nullptr;  // never written through unless it is a gradient or an output
  Dtype dtype = Dtype::f32;
  std::int64_t batches = 1, heads = 1, rows = 1, dim = 1;
  std::int64_t group = 1;  // how many heads of the problem share one of these
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  explicit operator bool() const { return data != nullptr; }
  // Which of the array's own matrices serves (b, h).
  std::int64_t slice(std::int64_t b, std::int64_t h) const { return (batches == 1 ? 0 : b) * heads + h / group; }
  std::int64_t offset(std::int64_t b, std::int64_t h) const {
    return (batches == 1 ? 0 : b) * batch_stride + (h / group) * head_stride;
  }
  MatrixRef at(std::int64_t b, std::int64_t h) const {
    return {static_cast<char*>(data) + offset(b, h) * static_cast<std::int64_t>(size_of(dtype)), dtype, row_stride};
  }
};

// A parameter in the compute type, contiguous: [heads or 1][rows][cols].
struct ParameterValue {
  const ParameterSpec* spec = nullptr;
  int first_slot = -1;
  bool given = false;
  bool per_head = false;
  std::int64_t rows = 1, cols = 1;
  const void* data = nullptr;
  std::shared_ptr<void> storage;  // when the caller's array had another type or layout

  std::int64_t size() const { return rows * cols; }
  template <class T>
  const T* head(std::int64_t h) const {
    return static_cast<const T*>(data) + (per_head ? h * size() : 0);
  }
};

struct Problem {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  std::int64_t query_dim = 1, key_dim = 1;
  std::int64_t inner = 1;  // length of the rows that are scored, after query_map and key_map
  bool is_double = false;  // compute type
  Operand q, k;
  std::vector<Operand> v;

  const MechanismInfo* mechanism = nullptr;
  const void* object = nullptr;
  std::shared_ptr<const void> keep_object;
  std::vector<double> settings;
  std::array<std::int64_t, 2> grid{};
  std::vector<ParameterValue> parameters;  // in the order of the mechanism's specs
  bool uses_content = true;

  double scale = 1;
  double softcap = 0;
  Operand bias;        // rows 1 with row_stride 0: the same for every query
  Operand dense_mask;  // bytes; dtype is not used
  Mask mask;           // the other masks
  Normalizer normalizer = Normalizer::softmax;
  int threads = 1;
  Path path = Path::automatic;
  bool divide_keys = true;

  // The parameter of that role, or null.
  const ParameterValue* find(Role role) const;
};

// Checks everything and throws rapt::Error, naming `operation`.
Problem make_problem(const char* operation, const Inputs& inputs, const AttendOptions& options);

// A checked array for (b, h) indexing; the sizes of 1 that stand for more are repeated. `write`: strides of 0 are refused.
Operand make_operand(const char* operation, const char* argument, const ConstView& view);

// The maximum that was followed (at most kSlack below the largest score) and the sum of exponentials under it, of each row, [batch·heads·queries] each, in double for f64 and float else.
// Under argmax the sum is the chosen key: −1 for none, NaN where a score is NaN.
struct Saved::Rows {
  std::int64_t count = 0;
  bool is_double = false;
  std::vector<double> max_f64, sum_f64;
  std::vector<float> max_f32, sum_f32;

  void resize(std::int64_t rows, bool as_double);
  template <class T>
  T* max() {
    if constexpr (std::is_same_v<T, float>) return max_f32.data();
    else return max_f64.data();
  }
  template <class T>
  T* sum() {
    if constexpr (std::is_same_v<T, float>) return sum_f32.data();
    else return sum_f64.data();
  }
};

bool asks_statistics(const Statistics& statistics);

// The paths. All take checked problems; outputs and gradients are checked before.
void reference_forward(const Problem& problem, const Outputs& outputs);
void reference_backward(const Problem& problem, const std::vector<Operand>& out, const std::vector<Operand>& grad_out,
                        const Gradients& gradients);

// True where the score factorises over the grid's rows and columns and nothing else is asked than out and lse.
bool can_factorize(const Problem& problem);
void factorized_forward(const Problem& problem, const Outputs& outputs);
void factorized_backward(const Problem& problem, const std::vector<Operand>& out, const std::vector<Operand>& grad_out,
                         const Gradients& gradients);

void tiled_forward(const Problem& problem, const Outputs& outputs);
void tiled_backward(const Problem& problem, const std::vector<Operand>& out, const std::vector<Operand>& grad_out,
                    const Saved::Rows& rows, const Gradients& gradients);

}  // namespace rapt
