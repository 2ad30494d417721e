#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/batch.h"

namespace rapt::inline v1::training {

struct EncodedExample {
  std::vector<int> source;
  std::vector<int> target;  // without kBegin and kEnd
};

using models::Batch;

// Batches of similar lengths. The order is fixed by seed and epoch alone: shuffle, sort within pools of 50 batches,
// cut, shuffle the batches.
class Batches {
 public:
  static constexpr std::int64_t kPool = 50;

  // Ready for epoch 0. Throws where there are no examples, an empty source or a batch size below 1.
  Batches(std::vector<EncodedExample> examples, std::int64_t batch_size, std::uint64_t seed);

  // From now on sources, and the targets that a decoder reads, have the unknown symbol in places that change with
  // the epoch: a symbol seen n times is replaced with probability weight/(weight + n), so about `weight` times an epoch.
  void read_as_unknown(double weight);

  // Reorders the batches; allocates nothing.
  void start_epoch(std::int64_t epoch);

  // The number of batches, the same for every epoch. One of them may be smaller than the others.
  std::int64_t count() const { return static_cast<std::int64_t>(batch_order_.size()); }

  // Allocates nothing if `batch` comes from an earlier call.
  void make(std::int64_t n, Batch& batch) const;

  // The examples of batch n at the positions p with p % parts == part; there may be none.
  void make_part(std::int64_t n, std::int64_t part, std::int64_t parts, Batch& batch) const;

  std::span<const EncodedExample> examples() const { return examples_; }

  // What the longest example needs, kEnd included.
  int max_source_steps() const { return max_source_steps_; }
  int max_target_steps() const { return max_target_steps_; }

 private:
  void put_unknown(Batch& batch) const;

  std::vector<EncodedExample> examples_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  std::vector<double> source_unknown_, target_unknown_;  // probabilities by id; empty: never
  int max_source_steps_ = 0;
  int max_target_steps_ = 0;
  std::vector<std::int64_t> order_;        // of the examples
  std::vector<std::int64_t> place_;        // of each example in the shuffled order
  std::vector<std::int64_t> batch_order_;  // of the batches
};

// The examples in the order given, for evaluation. Sources may not be empty.
void make_batch(std::span<const EncodedExample> examples, Batch& batch);

}  // namespace rapt::inline v1::training
