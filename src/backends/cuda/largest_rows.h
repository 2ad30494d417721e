#pragma once

#include "backends/cuda/call.h"

// What follows from the first largest score of every row, which rows.sum names: −1 where a row sees nothing.
namespace rapt::inline v1::cuda {

// Every output = the value of that key, 0 where there is none; rows whose maximum is NaN are left as they are.
void gather_values(const Call& call, const RowStatistics& rows, const ForwardOutputs& outputs, cudaStream_t stream);

// dv[n], of every head of v[n] apart = Σ grad_out[n] over the rows that have the key, in order. *redo becomes 1 if a row's
// maximum is NaN, which all of its keys share.
struct ValueSums {
  Array grad_out[kMaxValueSets], dv[kMaxValueSets];  // data null: not wanted
};
void sum_values(const Call& call, const RowStatistics& rows, const ValueSums& sums, int* redo, cudaStream_t stream);

}  // namespace rapt::inline v1::cuda
