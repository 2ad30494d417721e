#pragma once

#include <cstdint>
#include <string>

#include "rapt/api.h"
#include "rapt/attend.h"
#include "rapt/communicator.h"

// One call over many processes. Queries, keys and values are cut along the sequence, and every process has the rows of its
// share; the result has the same bits for any number of processes. docs/scale.md says how.
namespace rapt::inline v1 {

// The rows of a sequence that one process has: an early piece and a late one, so that causal work is even. Its arrays hold
// the early rows first.
struct Share {
  std::int64_t early_begin = 0, early_end = 0;
  std::int64_t late_begin = 0, late_end = 0;

  std::int64_t rows() const { return early_end - early_begin + late_end - late_begin; }
};

// Of a sequence of `length` rows. Short sequences leave some of many processes without rows.
RAPT_API Share share_of(std::int64_t length, int rank, int size);

// automatic: by the cost model. ring: keys and values travel. heads: rows are exchanged for heads, and back.
enum class Distribution : std::uint8_t { automatic, ring, heads };

struct DistributedOptions {
  Distribution distribution = Distribution::automatic;
  // Filled where it is not null: what was chosen, why, and what it sends.
  std::string* explanation = nullptr;
};

// attend() and attend_backward() with everybody's rows. Every process makes the call, with its rows of q, k and v (by
// share_of) and the same options; first_query, lengths and starts are those of the whole sequence, and a bias or a dense mask
// has the rows of the process and the columns of all keys. Outputs and gradients have the rows of the process; gradients of
// parameters, and of a bias with one row for all queries, are those of the whole call, in every process.
// A bad call throws in every process.
RAPT_API void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options,
                     Communicator& communicator, const DistributedOptions& how = {});
RAPT_API void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out,
                              const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                              const AttendOptions& options, Communicator& communicator,
                              const DistributedOptions& how = {}, const ConstView& grad_lse = {});

}  // namespace rapt::inline v1
