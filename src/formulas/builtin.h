#pragma once

#include <span>
#include <string_view>

namespace rapt::inline v1::formulas {

// A mechanism of the library as a formula; if it cannot be one, `why` says so.
struct BuiltinFormula {
  std::string_view mechanism;
  std::string_view score{};
  std::string_view pair{};
  std::string_view why{};

  bool is_formula() const { return why.empty(); }
};

// In the order of the registry.
std::span<const BuiltinFormula> builtin_formulas();
struct EqualMechanism {
  std::string_view name{};  // empty: none
  double softcap = 0;       // what the call would be asked for besides
};
// The mechanism whose formula this is, in the same words or others, under a softcap if it is c*tanh(score/c). Throws
// if a text is wrong.
EqualMechanism equal_mechanism(std::string_view score, std::string_view pair);
// Of one mechanism; none where its name is not in the list.
const BuiltinFormula* builtin_formula(std::string_view mechanism);

}  // namespace rapt::inline v1::formulas
