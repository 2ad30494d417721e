#pragma once

#include "attend/backend.h"

// The paths of the CPU backend. Parameters have been read, outputs and gradients checked.
namespace rapt::inline v1 {

// Tile by tile: every problem. `narrow`: everything that the caller asked for is bf16.
std::unique_ptr<ForwardPass> tiled_forward(const Problem& problem, const Outputs& outputs, bool narrow);
bool all_narrow(const Outputs& outputs);
// The same, and where rows are saved for a backward pass, outputs as they were before they were rounded to 16 bits.
std::unique_ptr<ForwardPass> keeping_forward(const Problem& problem, const Outputs& outputs);
bool all_narrow(const BackwardRequest& request);
// Plain products of short sequences, whole heads at a time. False: not such a problem, and nothing was written.
bool short_backward(const Problem& problem, const BackwardRequest& request, const Saved::Rows& rows);
void tiled_backward(const Problem& problem, const BackwardRequest& request, const Saved::Rows& rows);

// A row pass and a column pass: where the score factorises over the grid's rows and columns.
bool can_factorize(const Problem& problem);
void factorized_forward(const Problem& problem, const Outputs& outputs);
void factorized_backward(const Problem& problem, const std::vector<Operand>& grad_out, const Gradients& gradients);

}  // namespace rapt::inline v1
