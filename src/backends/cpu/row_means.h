#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attend/backend.h"
#include "backends/cpu/buffer.h"
#include "backends/cpu/head_waves.h"
#include "backends/cpu/simd/kernels.h"

namespace rapt::inline v1 {

// Of the arithmetic that gradients of scores go through, where products of bf16 pairs round them.
inline constexpr double kPairRounding = 0x1p-12;

// δ: what every ∂weight of a row is lowered by, so that a common change of its scores changes nothing.
//
// Under softmax it is Σ out∘grad_out, which rounds differently from the Σ weight·∂weight that the tiles would make, and
// whatever all keys of a row have in common is multiplied by the difference. So the tiles add up the gradients of their scores;
// where a row's sum is not what it must be, the rest times each weight is what is wrong, and a second pass takes it away.
template <class T>
class RowMeans {
 public:
  RowMeans(const Problem& problem, const Kernels<T>& kernels, const BackwardRequest& request, Saved::Rows& rows);

  // All but those of solved thresholds.
  void prepare();
  // Solved thresholds: from the slopes of the weights, head by head of the wave.
  void add_slope_means(const std::vector<Head<T>>& wave, const HeadTask<T>& prototype);
  // δ of every row that prepare() and add_slope_means() have found, in all digits.
  std::vector<double> all() const;

  bool is_prepared() const { return delta_.size() > 0; }
  // Head n counts b·heads + h. [queries] each.
  const T* of_head(std::int64_t n) const { return delta_.template as<T>() + n * p_.queries; }
  // Null but where thresholds are solved, or once corrections were found.
  const T* rest_of_head(std::int64_t n) const { return rest_.empty() ? nullptr : rest_.data() + n * p_.queries; }
  double* score_sums(std::int64_t n) const { return adds_sums_ ? sums_.as<double>() + n * p_.queries : nullptr; }
  double* score_sizes(std::int64_t n) const {
    return adds_sums_ ? sums_.as<double>() + (p_.batch * p_.heads + n) * p_.queries : nullptr;
  }

  // Which blocks of queries of the wave, whose heads are first, first + 1, …, are to be corrected; false: none. `rounding`:
  // of the arithmetic that gradients of scores went through. `strict`: of every sum that is not as exact as it can be.
  bool find_corrections(const std::vector<Head<T>>& wave, std::int64_t first, std::int64_t block_rows, double rounding,
                        bool strict);
  const T* corrections(std::int64_t n) const { return corrections_.data() + n * p_.queries; }
  const std::uint8_t* corrected_blocks(std::int64_t n) const { return marks_.data() + n * marked_blocks(); }
  bool is_corrected(std::int64_t n) const {
    const std::uint8_t* const marks = corrected_blocks(n);
    return std::find(marks, marks + marked_blocks(), std::uint8_t{1}) != marks + marked_blocks();
  }

 private:
  std::int64_t marked_blocks() const { return static_cast<std::int64_t>(marks_.size()) / (p_.batch * p_.heads); }

  // How the corrections of a head are found.
  struct Bound {
    double allowed = 0;
    bool exceeded = false;  // by some row
  };

  // Of some rows of head n: everything zero, then what is known before a tile is computed.
  void prepare_rows(std::int64_t n, std::int64_t first, std::int64_t rows, T* buffer);
  void use_means();
  Bound find_bound(const HeadTask<T>& head, std::int64_t n, double rounding, bool strict) const;
  double common_part(const HeadTask<T>& head) const;
  // What δ lacks, from the sum of the row's gradients.
  double missing(std::int64_t n, std::int64_t i) const;

  const Problem& p_;
  const Kernels<T>& kernels_;
  const BackwardRequest& request_;
  Saved::Rows& rows_;
  Buffer delta_;            // T [batch·heads][queries]
  Buffer sums_;             // double [2][batch·heads][queries]: Σ ∂score of each row, and of their sizes
  bool adds_sums_ = false;  // they are wanted
  bool has_products_ = false;
  std::vector<T> rest_;              // [batch·heads][queries]: the digits of δ that one number does not hold
  std::vector<T> corrections_;       // [batch·heads][queries]: what δ lacked
  std::vector<std::uint8_t> marks_;  // [batch·heads][blocks]
};

}  // namespace rapt::inline v1
