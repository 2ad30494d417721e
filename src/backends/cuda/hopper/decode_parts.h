#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "backends/cuda/call.h"

// How few queries with many keys are split: the keys of a key head over blocks, whose results are merged in order.
namespace rapt::inline v1::cuda::hopper {

inline constexpr int kDecodeRows = 64;      // queries of all heads that share a key head, at most
inline constexpr int kDecodeKeys = 512;     // keys from which on it pays
inline constexpr int kDecodeBlocks = 1024;  // wanted; from the sizes alone, so that every GPU computes the same bits
inline constexpr int kFewestKeys = 256;  // a part; 16 more a row keep what it writes under a sixteenth of what it reads

// The parts' results: a row's largest score, Σ exp(score − largest), and Σ exp(score − largest)·v.
struct DecodeParts {
  std::int32_t rows = 1;         // of a key head: row r is query r % queries of its head r / queries
  std::int32_t count = 1;        // parts of a key head
  std::int32_t fewest_keys = 1;  // where the queries see fewer than count·fewest_keys, the last parts are empty
  float2* statistics = nullptr;  // [batch·key heads][count][rows]
  float* sums = nullptr;         // [batch·key heads][count][rows][dim of v]; not written where a part is empty

  __host__ __device__ std::int64_t place(int item, int part, int row) const {
    return (static_cast<std::int64_t>(item) * count + part) * rows + row;
  }
};

// Whether the queries are so few, and the keys so many, that reading those is all that counts.
inline bool decodes(const Call& call) {
  return call.masks.sequences == 0 && call.keys >= kDecodeKeys && call.k.group == call.v[0].group &&
         static_cast<std::int64_t>(call.queries) * call.k.group <= kDecodeRows;
}

inline DecodeParts decode_parts(const Call& call, void* memory) {
  DecodeParts parts;
  const int items = call.batch * (call.heads / call.k.group);
  parts.rows = call.queries * call.k.group;
  parts.fewest_keys = std::max(kFewestKeys, 16 * parts.rows);
  parts.count =
      std::clamp((kDecodeBlocks + items - 1) / items, 1, (call.keys + parts.fewest_keys - 1) / parts.fewest_keys);
  parts.statistics = static_cast<float2*>(memory);
  // Rows of sums start at multiples of 16 bytes.
  const std::int64_t rows = parts.place(items, 0, 0);
  parts.sums = static_cast<float*>(memory) + (2 * rows + 3) / 4 * 4;
  return parts;
}

inline std::int64_t decode_bytes(const Call& call) {
  const DecodeParts parts = decode_parts(call, nullptr);
  const std::int64_t rows = parts.place(call.batch * (call.heads / call.k.group), 0, 0);
  return 4 * ((2 * rows + 3) / 4 * 4 + rows * call.v[0].dim);
}

// The parts in their order, the sink, and every output. Starts while the parts are still computed, and waits for them.
void merge_parts(const Call& call, const ForwardOutputs& outputs, const DecodeParts& parts, cudaStream_t stream);

}  // namespace rapt::inline v1::cuda::hopper
