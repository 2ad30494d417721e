#pragma once

#include "rapt/view.h"

namespace support {

// The device that RAPT_TEST_DEVICE names; cpu unless it is set.
rapt::Device test_device();
inline bool on_cpu() { return test_device().kind == rapt::Device::Kind::cpu; }

}  // namespace support
