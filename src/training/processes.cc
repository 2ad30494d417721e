#include "training/processes.h"

#include <algorithm>
#include <cstring>

#include "attend/counted.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1::training {
namespace {

constexpr int kPartTag = 1, kChunkTag = 2;

}  // namespace

Range Processes::chunks_of(int process, std::int64_t count) const {
  return {count * process / size(), count * (process + 1) / size()};
}
Range Processes::own_chunks(std::int64_t size) const { return chunks_of(rank(), chunks(size)); }
Range Processes::numbers_of(int process, std::int64_t size) const {
  const Range own = chunks_of(process, chunks(size));
  return {std::min(size, own.begin * kChunk), std::min(size, own.end * kChunk)};
}

// Every process receives its chunks of all parts and adds them.
void Processes::add_gradients(const std::vector<float*>& parts, std::int64_t size) const {
  if (alone()) return;
  const int own_rank = rank(), all = this->size();
  const Range own = numbers_of(own_rank, size);
  const auto bytes = [](const Range& range) { return static_cast<std::size_t>(range.count()) * sizeof(float); };
  std::vector<int> messages;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const int owner = static_cast<int>(p) % all;
    if (owner != own_rank) {
      if (own.count() > 0)
        messages.push_back(communicator_->start_receive(parts[p] + own.begin, bytes(own), owner, kPartTag));
      continue;
    }
    for (int other = 0; other < all; ++other) {
      const Range theirs = numbers_of(other, size);
      if (other != own_rank && theirs.count() > 0)
        messages.push_back(communicator_->start_send(parts[p] + theirs.begin, bytes(theirs), other, kPartTag));
    }
  }
  for (const int message : messages) communicator_->wait(message);
  const TensorKernels<float>& kernels = tensor_kernels<float>();
  for (std::size_t p = 1; p < parts.size(); ++p) kernels.add(parts[p] + own.begin, parts[0] + own.begin, own.count());
  const auto clear = [&](float* part, std::int64_t begin, std::int64_t end) {
    std::fill(part + begin, part + end, 0.0F);
  };
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const bool computed = computes(static_cast<std::int64_t>(p));
    if (p > 0) clear(parts[p], computed ? 0 : own.begin, computed ? size : own.end);
    else if (computed) clear(parts[p], 0, own.begin), clear(parts[p], own.end, size);
  }
}

template <class Part>
void Processes::share_ranges(std::byte* data, std::size_t each, const Part& part) const {
  const auto bytes = [&](const Range& range) { return static_cast<std::size_t>(range.count()) * each; };
  const auto at = [&](const Range& range) { return data + static_cast<std::size_t>(range.begin) * each; };
  const Range own = part(rank());
  std::vector<int> messages;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    const Range theirs = part(other);
    if (theirs.count() > 0)
      messages.push_back(communicator_->start_receive(at(theirs), bytes(theirs), other, kChunkTag));
    if (own.count() > 0) messages.push_back(communicator_->start_send(at(own), bytes(own), other, kChunkTag));
  }
  for (const int message : messages) communicator_->wait(message);
}

void Processes::share_chunks(float* numbers, std::int64_t size) const {
  if (alone()) return;
  share_ranges(reinterpret_cast<std::byte*>(numbers), sizeof(float),
               [&](int process) { return numbers_of(process, size); });
}
void Processes::share_chunks(std::vector<float>& numbers) const {
  share_chunks(numbers.data(), static_cast<std::int64_t>(numbers.size()));
}
void Processes::share_by_chunk(std::vector<double>& numbers) const {
  if (alone()) return;
  share_ranges(reinterpret_cast<std::byte*>(numbers.data()), sizeof(double),
               [&](int process) { return chunks_of(process, static_cast<std::int64_t>(numbers.size())); });
}

void Processes::share_dealt(std::byte* data, std::size_t count, std::size_t each) const {
  if (alone()) return;
  const auto all_processes = static_cast<std::size_t>(size());
  const std::size_t most = (count + all_processes - 1) / all_processes * each;
  std::vector<std::byte> own(most);
  for (auto n = static_cast<std::size_t>(rank()); n < count; n += all_processes)
    std::memcpy(own.data() + n / all_processes * each, data + n * each, each);
  const std::vector<std::byte> all = communicator_->all_gather(own.data(), most);
  for (std::size_t n = 0; n < count; ++n)
    std::memcpy(data + n * each, all.data() + n % all_processes * most + n / all_processes * each, each);
}

Wishes Processes::share_sums(std::span<LossSums> sums, const Wishes& own) const {
  if (alone()) return own;
  const std::vector<std::byte> all = communicator_->all_gather(&own, sizeof own);
  share_results(sums);
  Wishes any;
  for (std::size_t at = 0; at < all.size(); at += sizeof own) {
    Wishes one;
    std::memcpy(&one, all.data() + at, sizeof one);
    any.stop = any.stop || one.stop;
    any.save = any.save || one.save;
  }
  return any;
}

void Processes::meet() const {
  const std::byte nothing{};
  if (!alone()) communicator_->all_gather(&nothing, 1);
}

std::string Processes::text() const { return alone() ? "" : counted(size(), "process") + " of "; }

void Processes::share(void* data, std::size_t bytes) const {
  if (!alone()) communicator_->broadcast(data, bytes, 0);
}

}  // namespace rapt::inline v1::training
