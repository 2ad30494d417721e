#pragma once

#include <vector>

#include "attend/problem.h"

// attend() and attend_backward() of a part of another call, whose hooks see that one's sizes.
namespace rapt::inline v1 {

// Whether hooks may tell this call from the one that it is a part of.
bool hooks_see_outer(const Problem& problem);

void attend_within(const OuterCall& outer, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options);
void attend_backward_within(const OuterCall& outer, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, const ConstView& grad_lse);

// Fills saved.rows()->means, where δ is asked for; `saved` has the rows of the forward pass. Under softmax any keys will do, where
// a threshold is solved the call has all of them.
void find_row_means(const OuterCall& outer, const Inputs& inputs, const std::vector<ConstView>& out,
                    const std::vector<ConstView>& grad_out, Saved& saved, const AttendOptions& options,
                    const ConstView& grad_lse);

}  // namespace rapt::inline v1
