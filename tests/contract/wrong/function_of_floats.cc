// expected: rapt: custom: expected a struct of hooks, or a lambda
#include "rapt/custom.h"

float formula(float raw, const rapt::At<float>&) { return raw; }

rapt::Score score = rapt::custom(&formula);
