#pragma once

#include <string>
#include <string_view>

#include "rapt/api.h"
#include "rapt/mechanism.h"

// A mechanism given as text when the program runs; docs/formulas.md has the language.
namespace rapt::inline v1 {

struct FormulaOptions {
  std::string pair{};     // raw = Σ_d pair(q[d], k[d], w[d]); empty: the product q·k
  std::string visible{};  // a condition; empty: every pair is visible
};

// The score of that formula; empty: raw*scale. Its parameters are still to be given, by the names that the formula uses:
//   Score score = formula("raw*scale - m*abs(j-i)");
//   score.parameters = {{"m", slopes}};
// score.mechanism->parameters() lists them. Copies of the score share one formula. Throws rapt::Error with a caret under the
// place where the text is wrong.
RAPT_API Score formula(std::string_view score, const FormulaOptions& options = {});

}  // namespace rapt::inline v1
