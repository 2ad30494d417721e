#pragma once

#include <cstdint>
#include <string>

#include "rapt/api.h"
#include "rapt/attend.h"
#include "rapt/communicator.h"

// One call over many processes. Queries, keys and values are split along the sequence, and every process holds its
// share of the rows; the result has the same bits for any number of processes. docs/scale.md explains how.
namespace rapt::inline v1 {

// The rows of a sequence that one process holds: an early piece and a late one, which balances causal work. Its arrays
// hold the early rows first.
struct Share {
  std::int64_t early_begin = 0, early_end = 0;
  std::int64_t late_begin = 0, late_end = 0;

  std::int64_t rows() const { return early_end - early_begin + late_end - late_begin; }
};

// Of a sequence of `length` rows. A short sequence leaves some processes without rows.
RAPT_API Share share_of(std::int64_t length, int rank, int size);

// automatic: by the cost model. ring: keys and values travel. heads: rows are exchanged for heads, and back.
enum class Distribution : std::uint8_t { automatic, ring, heads };

struct DistributedOptions {
  Distribution distribution = Distribution::automatic;
  // If not null, filled with what was chosen, why, and what it sends.
  std::string* explanation = nullptr;
};

// attend() and attend_backward(), called by every process with its rows (share_of) of q, k, v, bias and dense mask, and
// the whole sequence's options. Gradients of parameters are the whole call's. A bad call throws in every process.
RAPT_API void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options,
                     Communicator& communicator, const DistributedOptions& how = {});
RAPT_API void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out,
                              const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                              const AttendOptions& options, Communicator& communicator,
                              const DistributedOptions& how = {}, const ConstView& grad_lse = {});

}  // namespace rapt::inline v1
