// expected: rapt: parameters: expected a relative_vector
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "v", .role = rapt::Role::relative_query_shift, .sizes = {rapt::kKeyDim}}};
};

rapt::Score score = rapt::custom(Wrong{});
