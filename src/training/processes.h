#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rapt/communicator.h"
#include "tensor/ops.h"

namespace rapt::inline v1::training {

// A range of consecutive chunks, or numbers.
struct Range {
  std::int64_t begin = 0, end = 0;

  std::int64_t count() const { return end - begin; }
};

// What one process wants after a step; all then do it.
struct Wishes {
  bool stop = false, save = false;
};

// The processes of one run, or one alone. The parts of a batch are dealt to them, and what they give is added in the order of
// the parts: the weights have the bits of one process. Numbers are dealt too, by chunks: a process adds its own and moves them.
class Processes {
 public:
  explicit Processes(Communicator* communicator = nullptr) : communicator_(communicator) {}

  int size() const { return communicator_ ? communicator_->size() : 1; }
  int rank() const { return communicator_ ? communicator_->rank() : 0; }
  bool alone() const { return size() == 1; }
  // Whether this process writes the files.
  bool writes() const { return rank() == 0; }
  bool computes(std::int64_t part) const { return part % size() == rank(); }

  // Blocks until all processes arrive.
  void meet() const;
  // "4 processes of ", or nothing for a single one.
  std::string text() const;

  static constexpr std::int64_t kChunk = 1 << 14;
  static std::int64_t chunks(std::int64_t size) { return (size + kChunk - 1) / kChunk; }
  // The range of `size` numbers that this process owns.
  Range own_chunks(std::int64_t size) const;

  // This process's chunks of parts[0] become their sum over all parts; all else becomes 0. Each has `size` numbers.
  void add_gradients(const std::vector<float*>& parts, std::int64_t size) const;
  // All processes get the chunks of all. Lists with one number per chunk exchange those numbers.
  void share_chunks(std::vector<float>& numbers) const;
  void share_chunks(float* numbers, std::int64_t size) const;
  void share_by_chunk(std::vector<double>& numbers) const;

  // Of whole tasks that are dealt out as parts are, all processes get all results.
  template <class T>
  void share_results(std::span<T> results) const {
    static_assert(std::is_trivially_copyable_v<T>);
    share_dealt(reinterpret_cast<std::byte*>(results.data()), results.size(), sizeof(T));
  }

  // One item per part: every process gets those of the process that computed it. A wish of one becomes a wish of all.
  Wishes share_sums(std::span<LossSums> sums, const Wishes& own) const;

  // Broadcasts what process 0 has.
  void share(void* data, std::size_t bytes) const;
  void share(std::vector<float>& numbers) const { share(numbers.data(), numbers.size() * sizeof(float)); }

 private:
  Range chunks_of(int process, std::int64_t count) const;
  Range numbers_of(int process, std::int64_t size) const;
  template <class Part>
  void share_ranges(std::byte* data, std::size_t each, const Part& part) const;
  void share_dealt(std::byte* data, std::size_t count, std::size_t each) const;

  Communicator* communicator_;
};

}  // namespace rapt::inline v1::training
