#pragma once

#include <vector>

#include "rapt/attend.h"
#include "rapt/distributed.h"

// Calls over arrays in ordinary memory, computed on a device: arrays are copied there and back. On a cpu nothing is
// copied.
namespace rapt::inline v1 {

void attend_copied(const Device& device, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options);

void attend_backward_copied(const Device& device, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, const ConstView& grad_lse = {});

// The same over processes, each with its share of the rows and a device.
void attend_copied(const Device& device, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options,
                   Communicator& processes, const DistributedOptions& how);
void attend_backward_copied(const Device& device, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, Communicator& processes, const DistributedOptions& how);

}  // namespace rapt::inline v1
