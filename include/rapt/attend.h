#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rapt/api.h"
#include "rapt/mask.h"
#include "rapt/mechanism.h"
#include "rapt/normalizer.h"
#include "rapt/view.h"

namespace rapt::inline v1 {

// automatic: the fastest exact path. generic: the tiled engine, without specialised paths.
// reference: the naive path, which stores the score matrix; for checking.
enum class Path : std::uint8_t { automatic, generic, reference };

// Rotary position encoding rotates the first `dims` elements of every query and key by their position: elements
// (n, n + dims/2), or (2n, 2n + 1) where interleaved, by the angle position · base^(−2n/dims).
struct Rotary {
  std::int64_t dims = 0;  // even; 0: none
  double base = 10000;
  bool interleaved = false;
};

struct AttendOptions {
  Score score{};                  // scaled_dot unless set
  std::optional<double> scale{};  // replaces 1/√Dk, or 1 where the formula has none
  double softcap = 0;             // c > 0: the score becomes c·tanh(score/c)
  ConstView bias{};               // [B|1, H|1, Sq|1, Sk], added after the softcap
  Mask mask{};
  Normalizer normalizer = Normalizer::softmax;
  std::vector<NamedView> normalizer_parameters{};  // softmax: sink [H]; sigmoid: b [H] or one number
  // Query i of batch b is at position first_query[b] + i: one number, or one per batch; empty: 0.
  std::vector<std::int64_t> first_query{};
  // Set: the keys are part of a longer sequence, and key j is at position first_key + j. Unset: at j.
  std::optional<std::int64_t> first_key{};
  Rotary rotary{};
  int threads = 0;  // 0: default_threads()
  Path path = Path::automatic;
  void* stream = nullptr;  // of the arrays' device; a CPU has none
};

// q [B,H,Sq,Dq], k [B,Hk,Sk,Dk], v [B,Hk,Sk,Dv]: any strides, the last dimension contiguous. Hk divides H; a batch or
// head count of 1 is broadcast. Several value sets share one set of weights.
struct Inputs {
  ConstView q{};
  ConstView k{};
  std::vector<ConstView> v{};
};

// The weights of some rows of one head: out is [1, 1, row_end − row_begin, Sk].
struct WeightsRequest {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  View out{};
};

// Statistics of each row of weights; leave out those not wanted. Every array is contiguous, [B,H,Sq] and what follows;
// numbers are in the compute type: f64 for f64 inputs, f32 for all others.
struct Statistics {
  View entropy{};                  // in nats
  std::int64_t* argmax = nullptr;  // key of the largest score, the first of equals; −1 where nothing is visible
  View position{};                 // expected key position; on a grid [.., 2]: row, column
  View covariance{};               // of that position; on a grid [.., 2, 2]
  int top_k = 0;
  std::int64_t* top_indices = nullptr;  // [.., top_k], largest score first, −1 where fewer keys are visible
  View top_weights{};                   // [.., top_k]
  std::array<std::int64_t, 2> grid{};   // rows, columns of the keys; {0,0}: positions are 0 … Sk−1
};

// What the backward pass needs from the forward pass: two numbers per row, and outputs in f32 where they have 16 bits.
class Saved {
 public:
  RAPT_API Saved();
  RAPT_API ~Saved();
  RAPT_API Saved(Saved&&) noexcept;
  RAPT_API Saved& operator=(Saved&&) noexcept;

  struct Rows;
  Rows* rows() const { return rows_.get(); }

 private:
  std::unique_ptr<Rows> rows_;
};

struct Outputs {
  std::vector<View> out{};  // one per value set, [B,H,Sq,Dv]
  // [B,H,Sq,1], −∞ where nothing is visible. softmax: log Σ exp(score); argmax: the largest score; sparsemax and
  // entmax15: the threshold; sigmoid: the logarithm of the sum of the weights.
  View lse{};
  // Partial results under softmax (partial.h), [B,H,Sq,1] in the compute type: row maximum and Σ exp(score − maximum).
  View row_max{};
  View row_sum{};
  std::vector<WeightsRequest> weights{};
  Statistics statistics{};
  Saved* saved = nullptr;  // filled for attend_backward
};

struct NamedGradient {
  std::string name{};
  View value{};
};

// Where gradients go; what is left out is not computed. Each has the shape of its array. Parameters are those of the
// mechanism and of the normaliser.
struct Gradients {
  View q{};
  View k{};
  std::vector<View> v{};
  View bias{};
  std::vector<NamedGradient> parameters{};
};

// out = normalize(score(q, k)) · v, storing nothing of size Sq × Sk.
RAPT_API void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options = {});

// The plain case: one value set, no other outputs.
RAPT_API void attend(const ConstView& q, const ConstView& k, const ConstView& v, const View& out,
                     const AttendOptions& options = {});

// Gradients of a loss, from the forward outputs and the gradient with respect to each. Without `saved` the row sums are
// recomputed. grad_lse: also with respect to lse, under softmax.
RAPT_API void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out,
                              const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                              const AttendOptions& options = {}, const ConstView& grad_lse = {});

}  // namespace rapt::inline v1
