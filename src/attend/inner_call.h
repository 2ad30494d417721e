#pragma once

#include <vector>

#include "attend/problem.h"

// attend() and attend_backward() of a part of another call, whose hooks see that one's sizes.
namespace rapt::inline v1 {

void attend_within(const OuterCall& outer, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options);
void attend_backward_within(const OuterCall& outer, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, const ConstView& grad_lse);

// Of thresholds that are solved, fills saved.rows()->means; `saved` has the rows of the forward pass, and the call all keys.
void find_slope_means(const OuterCall& outer, const Inputs& inputs, const std::vector<ConstView>& out,
                      const std::vector<ConstView>& grad_out, Saved& saved, const AttendOptions& options);

}  // namespace rapt::inline v1
