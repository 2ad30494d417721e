// expected: rapt: parameters: expected as many sizes as the role takes
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "W", .role = rapt::Role::query_map, .sizes = {rapt::kQueryDim}}};
};

rapt::Score score = rapt::custom(Wrong{});
