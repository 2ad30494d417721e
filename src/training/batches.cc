#include "training/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"

namespace rapt::inline v1::training {
namespace {

// Fills a batch with `size` examples; example(p) gives the index and the example at position p.
template <class Get>
void fill(std::size_t size, const Get& example, Batch& batch) {
  std::size_t source_steps = 0;
  std::size_t target_steps = 0;
  for (std::size_t p = 0; p < size; ++p) {
    const EncodedExample& one = *example(p).second;
    source_steps = std::max(source_steps, one.source.size());
    target_steps = std::max(target_steps, one.target.size() + 1);
  }
  batch.size = static_cast<int>(size);
  batch.source_steps = static_cast<int>(source_steps);
  batch.target_steps = static_cast<int>(target_steps);
  batch.source.assign(source_steps * size, kPad);
  batch.target_in.assign(target_steps * size, kPad);
  batch.target_out.assign(target_steps * size, kPad);
  batch.source_lengths.resize(size);
  batch.target_lengths.resize(size);
  batch.index.resize(size);
  for (std::size_t p = 0; p < size; ++p) {
    const auto [index, one] = example(p);
    for (std::size_t t = 0; t < one->source.size(); ++t) batch.source[t * size + p] = one->source[t];
    const std::size_t length = one->target.size();
    batch.target_in[p] = kBegin;
    for (std::size_t t = 0; t < length; ++t) {
      batch.target_in[(t + 1) * size + p] = one->target[t];
      batch.target_out[t * size + p] = one->target[t];
    }
    batch.target_out[length * size + p] = kEnd;
    batch.source_lengths[p] = static_cast<std::int64_t>(one->source.size());
    batch.target_lengths[p] = static_cast<std::int64_t>(length) + 1;
    batch.index[p] = index;
  }
}

void check(std::span<const EncodedExample> examples) {
  constexpr std::size_t kLongest = std::numeric_limits<int>::max() - 1;
  if (examples.size() > kLongest)
    throw Error("batches: expected fewer than 2³¹ − 1 examples, got " + std::to_string(examples.size()));
  for (std::size_t n = 0; n < examples.size(); ++n) {
    const EncodedExample& one = examples[n];
    if (one.source.empty())
      throw Error("batches: example " + std::to_string(n) + ": expected at least one symbol in the source, got none");
    if (one.source.size() > kLongest || one.target.size() > kLongest)
      throw Error("batches: example " + std::to_string(n) + ": expected at most 2³¹ − 2 symbols, got more");
  }
}

}  // namespace

Batches::Batches(std::vector<EncodedExample> examples, std::int64_t batch_size, std::uint64_t seed)
    : examples_(std::move(examples)), batch_size_(batch_size), seed_(seed) {
  if (batch_size < 1) throw Error("batches: expected a batch size of at least 1, got " + std::to_string(batch_size));
  if (examples_.empty()) throw Error("batches: expected at least one example, got none");
  check(examples_);
  for (const EncodedExample& one : examples_) {
    max_source_steps_ = std::max(max_source_steps_, static_cast<int>(one.source.size()));
    max_target_steps_ = std::max(max_target_steps_, static_cast<int>(one.target.size()) + 1);
  }
  // A batch size beyond the number of examples is cut to it, so that nothing below overflows.
  batch_size_ = std::min(batch_size_, static_cast<std::int64_t>(examples_.size()));
  order_.resize(examples_.size());
  place_.resize(examples_.size());
  batch_order_.resize((examples_.size() - 1) / static_cast<std::size_t>(batch_size_) + 1);
  start_epoch(0);
}

void Batches::read_as_unknown(double weight) {
  source_unknown_.clear();
  target_unknown_.clear();
  if (weight <= 0) return;
  const auto probabilities = [&](std::vector<int> EncodedExample::*side) {
    std::vector<double> list;
    for (const EncodedExample& one : examples_)
      for (const int id : one.*side) {
        if (static_cast<std::size_t>(id) >= list.size()) list.resize(static_cast<std::size_t>(id) + 1);
        ++list[static_cast<std::size_t>(id)];
      }
    for (double& count : list) count = count > 0 ? weight / (weight + count) : 0;
    return list;
  };
  source_unknown_ = probabilities(&EncodedExample::source);
  target_unknown_ = probabilities(&EncodedExample::target);
}

void Batches::start_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  Random random(seed_, epoch);
  std::iota(order_.begin(), order_.end(), 0);
  random.shuffle(std::span(order_));
  for (std::size_t n = 0; n < order_.size(); ++n)
    place_[static_cast<std::size_t>(order_[n])] = static_cast<std::int64_t>(n);
  const auto key = [&](std::int64_t index) {
    const EncodedExample& one = examples_[static_cast<std::size_t>(index)];
    return std::tuple(one.target.size(), one.source.size(), place_[static_cast<std::size_t>(index)]);
  };
  const std::span<std::int64_t> order(order_);
  const auto pool = static_cast<std::size_t>(kPool * batch_size_);
  for (std::size_t begin = 0; begin < order.size(); begin += pool) {
    const std::span<std::int64_t> part = order.subspan(begin, std::min(pool, order.size() - begin));
    std::sort(part.begin(), part.end(), [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
  }
  std::iota(batch_order_.begin(), batch_order_.end(), 0);
  random.shuffle(std::span(batch_order_));
}

void Batches::make(std::int64_t n, Batch& batch) const { make_part(n, 0, 1, batch); }

void Batches::make_part(std::int64_t n, std::int64_t part, std::int64_t parts, Batch& batch) const {
  if (n < 0 || n >= count())
    throw Error("batches: expected a batch from 0 to " + std::to_string(count() - 1) + ", got " + std::to_string(n));
  if (part < 0 || part >= parts)
    throw Error("batches: expected a part from 0 to " + std::to_string(parts - 1) + ", got " + std::to_string(part));
  // Room for the longest examples, so that no later batch of this object allocates.
  const auto room = static_cast<std::size_t>((batch_size_ - 1) / parts + 1);
  const auto source_steps = static_cast<std::size_t>(max_source_steps_);
  const auto target_steps = static_cast<std::size_t>(max_target_steps_);
  batch.source.reserve(room * source_steps);
  batch.target_in.reserve(room * target_steps);
  batch.target_out.reserve(room * target_steps);
  batch.source_lengths.reserve(room);
  batch.target_lengths.reserve(room);
  batch.index.reserve(room);

  const std::int64_t begin = batch_order_[static_cast<std::size_t>(n)] * batch_size_;
  const std::int64_t whole = std::min(batch_size_, static_cast<std::int64_t>(order_.size()) - begin);
  const std::int64_t size = part < whole ? (whole - part - 1) / parts + 1 : 0;
  const auto example = [&](std::size_t p) {
    const std::int64_t index = order_[static_cast<std::size_t>(begin + part + static_cast<std::int64_t>(p) * parts)];
    return std::pair(index, &examples_[static_cast<std::size_t>(index)]);
  };
  fill(static_cast<std::size_t>(size), example, batch);
  if (!source_unknown_.empty()) put_unknown(batch);
}

// A function of seed, epoch and example alone: parts and threads change nothing.
void Batches::put_unknown(Batch& batch) const {
  const auto columns = static_cast<std::size_t>(batch.size);
  for (std::size_t p = 0; p < columns; ++p) {
    Random random(seed_, 0x756e6b6eU, epoch_, batch.index[p]);
    const EncodedExample& one = examples_[static_cast<std::size_t>(batch.index[p])];
    for (std::size_t t = 0; t < one.source.size(); ++t)
      if (random.uniform() < source_unknown_[static_cast<std::size_t>(one.source[t])])
        batch.source[t * columns + p] = kUnknown;
    for (std::size_t t = 0; t < one.target.size(); ++t)
      if (random.uniform() < target_unknown_[static_cast<std::size_t>(one.target[t])])
        batch.target_in[(t + 1) * columns + p] = kUnknown;
  }
}

void make_batch(std::span<const EncodedExample> examples, Batch& batch) {
  check(examples);
  fill(
      examples.size(), [&](std::size_t p) { return std::pair(static_cast<std::int64_t>(p), &examples[p]); }, batch);
}

}  // namespace rapt::inline v1::training
