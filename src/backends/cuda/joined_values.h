#pragma once

#include "backends/cuda/memory.h"
#include "backends/cuda/programs.h"

// Several value sets as one, whose rows are the sets' rows one after the other: then a map of weights is computed once, and
// the kernels for the tensor cores need to know of one set only.
namespace rapt::inline v1::cuda {

// Whether the sets of a call have one type and one head each for the same queries, and rows short enough together.
bool can_join(const Call& call);

// The arrays of `sets`, [batches, heads, rows, …] each, as one of the type `dtype`; the rows end with zeros up to a
// multiple of 8. `copies`: with their numbers.
Array join(const Array* parts, int sets, int batches, int heads, int rows, Dtype dtype, bool copies,
           Workspace& workspace);
// The numbers of such an array to the sets' own; data null: not wanted.
void split(const Array& from, const Array* parts, int sets, int batches, int heads, int rows, cudaStream_t stream);

// The call with its values joined.
Call join_values(const Call& call, Workspace& workspace);

// The same of a backward pass, with the gradients of its outputs and, without numbers, of its values; data null: not wanted.
// False: the arrays do not fit.
bool join_gradients(Call& call, const Array* grad_out, const Array* dv, FastGradients& f, Workspace& workspace);

}  // namespace rapt::inline v1::cuda
