#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "attend/problem.h"
#include "attend/visibility.h"
#include "backends/cpu/buffer.h"
#include "backends/cpu/simd/kernels.h"

namespace rapt::inline v1 {

// One batch and head of a wave, ready for the tiles. Where the mechanism maps queries or keys first, the mapped rows and
// their gradients are here too.
template <class T>
struct Head {
  std::int64_t b = 0, h = 0;
  HeadTask<T> task;
  std::vector<MatrixRef> v;
  T* mapped_q = nullptr;                           // [queries][HeadWaves::inner_pad]
  T* mapped_k = nullptr;                           // [keys][inner_pad]
  T* mapped_relative = nullptr;                    // [queries][relative_pad]
  std::vector<T*> converted_v;                     // [sets]: [keys][padded dim]; null: read as they lie
  std::vector<const std::uint16_t*> transposed_v;  // as HeadTask has it
  std::vector<T> plain_q, plain_k;                 // copies of the mapped rows, where some pairs are plain
  std::vector<T> q_centers, k_centers;             // what tells which, see FastRows
};

// Prepares heads in waves, so that mapped rows take bounded memory for any number of heads.
template <class T>
class HeadWaves {
 public:
  // `narrow`: everything that is asked for is bf16, so that nothing is lost by products of bf16 numbers. `more_bytes`: what
  // the caller needs for each head of a wave.
  HeadWaves(const Problem& problem, const Kernels<T>& kernels, bool backward, bool narrow, std::int64_t more_bytes = 0);

  bool maps_q() const { return maps_q_; }
  bool maps_k() const { return maps_k_; }
  bool maps_relative() const { return maps_relative_; }
  std::int64_t inner_pad() const { return inner_pad_; }
  std::int64_t relative_pad() const { return relative_pad_; }
  std::int64_t wave_size() const { return wave_size_; }
  // Rows are multiplied as they are given, in the compute type, and nothing but masks follows.
  bool is_plain_product() const;
  const Visibility& visibility() const { return visibility_; }

  // Memory for so many heads, where the vector has fewer.
  void reserve(std::int64_t count, std::vector<Head<T>>& heads) const;
  // Makes `heads` the heads first … first+count−1, counted b·heads + h. A vector that an earlier call filled is used again
  // and may be longer.
  void prepare(std::int64_t first, std::int64_t count, std::vector<Head<T>>& heads);

  // The same without rows: only what the size of a workspace depends on.
  HeadTask<T> prototype() const;

 private:
  T* add_head(std::vector<Head<T>>& heads, T* mapped) const;
  void bind(Head<T>& head) const;
  void find_identities();
  std::int64_t value_pad(std::size_t set) const;
  std::int64_t transposed_size(std::size_t set) const;
  bool takes_bf16(bool backward) const;
  void map_rows(const Head<T>& head, std::int64_t first, std::int64_t rows, bool keys, T* scratch) const;
  void prepare_fast(std::span<Head<T>> heads) const;
  void keep_plain(Head<T>& head) const;

  const Problem& problem_;
  const Kernels<T>& kernels_;
  const Programs* programs_;  // null: the mechanism is not compiled for this SIMD target
  Visibility visibility_;
  std::vector<std::int64_t> value_dims_;
  std::vector<char> identities_;  // of each parameter's table: its rows follow each other as offsets do
  bool converts_values_ = false, transposes_values_ = false;
  const Bf16Kernels* bf16_ = nullptr;
  bool maps_q_ = false, maps_k_ = false, maps_relative_ = false, fast_ = false, has_vectors_ = false;
  bool backward_ = false;
  std::int64_t inner_pad_ = 0, relative_pad_ = 0, relative_dim_ = 0;
  std::int64_t wave_size_ = 0;
  Buffer mapped_;
  std::vector<Buffer> scratch_;  // of each thread
};

// W [rows][cols] as [rows][pad], or transposed as [cols][pad].
template <class T>
std::vector<T> padded_copy(const T* w, std::int64_t rows, std::int64_t cols, std::int64_t pad, bool transposed);

}  // namespace rapt::inline v1
