// expected: rapt: parameters: expected one parameter at most
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "A", .role = rapt::Role::key_map, .sizes = {rapt::kKeyDim, rapt::kQueryDim}},
      rapt::ParameterSpec{.name = "B", .role = rapt::Role::key_map, .sizes = {rapt::kKeyDim, rapt::kQueryDim}}};
};

rapt::Score score = rapt::custom(Wrong{});
