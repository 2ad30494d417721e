#pragma once

#include <string>
#include <string_view>

#include "rapt/api.h"
#include "rapt/mechanism.h"

// A mechanism given as text at run time; docs/formulas.md describes the language.
namespace rapt::inline v1 {

struct FormulaOptions {
  std::string pair{};     // raw = Σ_d pair(q[d], k[d], w[d]); empty: the product q·k
  std::string visible{};  // a condition; empty: every pair is visible
};

// The score of a formula such as "raw*scale - m*abs(j-i)"; empty: raw*scale. Set its parameters by the names it uses:
// score.parameters = {{"m", slopes}}. Copies share one formula. Throws rapt::Error with a caret under the mistake.
RAPT_API Score formula(std::string_view score, const FormulaOptions& options = {});

}  // namespace rapt::inline v1
