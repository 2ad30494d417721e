// expected: rapt: setting: the engine does not read this name; did you mean settings?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array setting{rapt::SettingSpec{.name = "width", .value = 1, .high = 2}};
};

rapt::Score score = rapt::custom(Wrong{});
