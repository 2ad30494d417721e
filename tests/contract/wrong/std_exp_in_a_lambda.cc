// expected: rapt: functions of std do not take the numbers of hooks: write tanh(x)
#include <cmath>

#include "rapt/custom.h"

rapt::Score score = rapt::custom([](auto raw, const auto& at) { return raw - std::exp(at.offset()); });
