#pragma once

#include <vector>

#include "attend/backend.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/programs.h"
#include "backends/cuda/rows.h"

namespace rapt::inline v1::cuda {

Array array_of(const Operand& operand);
// A view of [B, H, rows, dim], its heads those of the problem.
Array array_of(const View& view);
// A contiguous [batches, heads, rows, dim] of f32.
Array contiguous_array(void* data, std::int64_t batches, std::int64_t heads, std::int64_t rows, std::int64_t dim);

// The rows of q or k at each step to the scores: [batches, heads, rows, dim].
struct Rows {
  Array array;  // its group is counted against its own heads
  std::int32_t batches = 1, heads = 1;

  // As seen by a problem with this many heads.
  Array seen_by(std::int32_t problem_heads) const {
    Array a = array;
    a.group = problem_heads / heads;
    return a;
  }
};

struct Side {
  Rows given;   // after rotation
  Rows mapped;  // after query_map or key_map
  Rows scored;  // after the division by their lengths and the shift
};

// A problem prepared for kernels: parameters gathered, rows prepared, masks uploaded, all on the workspace's stream.
class PreparedCall {
 public:
  PreparedCall(const Problem& problem, Workspace& workspace);

  const Problem& problem;
  Call call;
  Side q, k;
  Map query_map, key_map;  // numbers null: none

  // A parameter's numbers, contiguous in f32; null: not given.
  const float* numbers(const ParameterValue& value);
  // Whether the kernels of element-wise scores compute the call.
  bool takes_pairs() const;
  // And give what rounding takes from this output, their only one.
  bool pairs_keep_remainder(const Array& out) const;
  // Where row 0 of the queries or of the keys stands, as RowChange has it.
  RowChange rotation(bool queries) const;

 private:
  void prepare_masks();
  void prepare_parameters();
  void prepare_tables();
  void prepare_grid();
  void prepare_normalizer();
  void prepare_rows();
  void prepare_pairs();
  PairTiles pair_tiles(const Rows& rows, std::int64_t count);
  Side prepare_side(const Operand& operand, bool queries, Map& map);
  Rows changed(const Rows& from, RowChange change, std::int32_t batches, std::int32_t heads);
  const ParameterValue* find(Role role) const { return problem.find(role); }

  Workspace& workspace_;
  const std::int64_t* query_positions_ = nullptr;
};

}  // namespace rapt::inline v1::cuda
