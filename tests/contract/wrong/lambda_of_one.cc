// expected: rapt: custom: expected a struct of hooks, or a lambda
#include "rapt/custom.h"

rapt::Score score = rapt::custom([](auto raw) { return raw; });
