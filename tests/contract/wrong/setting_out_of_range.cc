// expected: rapt: settings: expected low
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array settings{rapt::SettingSpec{.name = "width", .value = 16}};
};

rapt::Score score = rapt::custom(Wrong{});
