#pragma once

#include <vector>

#include "rapt/attend.h"
#include "rapt/device.h"

// The library's calls on the device that RAPT_TEST_DEVICE names (cpu unless it is set): arrays of ordinary memory are
// copied there and back.
namespace support {

rapt::Device test_device();
inline bool on_cpu() { return test_device().kind == rapt::Device::Kind::cpu; }

void attend(const rapt::Inputs& inputs, const rapt::Outputs& outputs, const rapt::AttendOptions& options);
void attend_backward(const rapt::Inputs& inputs, const std::vector<rapt::ConstView>& out,
                     const std::vector<rapt::ConstView>& grad_out, const rapt::Saved* saved,
                     const rapt::Gradients& gradients, const rapt::AttendOptions& options,
                     const rapt::ConstView& grad_lse);

}  // namespace support
