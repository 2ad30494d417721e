// A formula as a lambda: with state, with constants of any type, of positions alone, of the raw score alone.
#include "rapt/custom.h"

namespace {

rapt::Score captured(double slope) {
  return rapt::custom([slope](auto raw, const auto& at) { return raw * at.scale + slope * at.offset(); });
}

}  // namespace

rapt::Score scores[] = {
    captured(0.5),
    rapt::custom([](auto, const auto& at) { return -rapt::abs(at.offset()); }),
    rapt::custom([](auto raw, const auto&) { return raw * 2 - 1.5f; }),
    rapt::custom([](auto, const auto&) { return 0; }),
};
