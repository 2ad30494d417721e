#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rapt/api.h"
#include "rapt/mask.h"
#include "rapt/mechanism.h"
#include "rapt/view.h"

namespace rapt {

// How a row of scores becomes weights. argmax puts all weight on the first largest score; no gradient reaches the scores.
enum class Normalizer : std::uint8_t { softmax, argmax };

// automatic: the fastest exact path. generic: the tiled engine, without specialised paths.
// reference: the naive path, which stores the score matrix; for checking.
enum class Path : std::uint8_t { automatic, generic, reference };

struct AttendOptions {
  Score score{};                  // scaled_dot unless set
  std::optional<double> scale{};  // in place of 1/√Dk, or of 1 where the formula has none
  double softcap = 0;             // c > 0: the score becomes c·tanh(score/c)
  ConstView bias{};               // [B|1, H|1, Sq|1, Sk], added after the softcap
  Mask mask{};
  Normalizer normalizer = Normalizer::softmax;
  int threads = 0;  // 0: default_threads()
  Path path = Path::automatic;
  // Few queries against many keys share the keys among threads. False: they do not, and rounding does not depend on
  // how many queries there are.
  bool divide_keys = true;
};

// q [B,H,Sq,Dq], k [B,Hk,Sk,Dk], v [B,Hk,Sk,Dv]: any strides, the last dimension contiguous. Hk divides H; a batch or a
// number of heads of 1 is repeated. Several value sets share one map of weights.
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

// Facts about each row of weights. Leave out what is not wanted. Every array is contiguous, [B,H,Sq] and what follows;
// numbers are in the compute type: f64 for f64 inputs, f32 for all others.
struct Statistics {
  View entropy{};                  // in nats
  std::int64_t* argmax = nullptr;  // first key of largest weight; −1 where nothing is visible
  View position{};                 // expected key position; on a grid [.., 2]: row, column
  View covariance{};               // of that position; on a grid [.., 2, 2]
  int top_k = 0;
  std::int64_t* top_indices = nullptr;  // [.., top_k], largest first, −1 where fewer keys are visible
  View top_weights{};                   // [.., top_k]
  std::array<std::int64_t, 2> grid{};   // rows, columns of the keys; {0,0}: positions are 0 … Sk−1
};

// What the backward pass needs of the forward pass: the maximum and the sum of every row. Two numbers a row.
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
  std::vector<View> out{};  // one for each value set, [B,H,Sq,Dv]
  View lse{};  // [B,H,Sq,1]: log Σ exp(score), −∞ where nothing is visible; the largest score under argmax
  std::vector<WeightsRequest> weights{};
  Statistics statistics{};
  Saved* saved = nullptr;  // filled for attend_backward
};

struct NamedGradient {
  std::string name{};
  View value{};
};

// Where gradients go; what is left out is not computed. Each has the shape of what it belongs to.
struct Gradients {
  View q{};
  View k{};
  std::vector<View> v{};
  View bias{};
  std::vector<NamedGradient> parameters{};
};

// out = normalize(score(q, k)) · v, with nothing of the size Sq × Sk stored.
RAPT_API void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options = {});

// The plain case: one value set, no other outputs.
RAPT_API void attend(const ConstView& q, const ConstView& k, const ConstView& v, const View& out,
                     const AttendOptions& options = {});

// Gradients of a loss, from the forward pass's outputs and the loss's gradient of each. Without `saved` the row sums
// are computed again.
RAPT_API void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out,
                              const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                              const AttendOptions& options = {});

}  // namespace rapt
