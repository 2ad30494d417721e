// State may have any name, and so may types and structs: only constants and hooks are told from misspelt ones.
#include "rapt/custom.h"

namespace {

struct Pair {
  static constexpr std::string_view formula = "scale·q·k, unlike −∞ for one parity";
  struct Mask {
    bool odd = false;
  };
  float scale = 1;
  bool unit = false;
  Mask params;
  float setting[2] = {};

  template <class N>
  N pair(N q, N k, N) const {
    return q * k * scale;
  }
  template <class At>
  bool visible(const At& at) const {
    return at.head < 4;
  }
};

struct Index {
  static constexpr std::string_view formula = "q·k";
};

}  // namespace

rapt::Score scores[] = {rapt::custom(Pair{}), rapt::custom(Pair()), rapt::custom(Index{})};
