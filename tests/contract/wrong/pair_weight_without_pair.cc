// expected: rapt: parameters: expected a pair() that reads the pair_weight
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "w", .role = rapt::Role::pair_weight, .sizes = {rapt::kKeyDim}}};
};

rapt::Score score = rapt::custom(Wrong{});
