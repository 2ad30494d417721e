// Texts of formulas: a score, and after two line ends a pair and a condition.

#include <cstdint>
#include <string>

#include "rapt/error.h"
#include "rapt/formula.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = text.find('\n'), second = first == std::string::npos ? first : text.find('\n', first + 1);
  rapt::FormulaOptions options;
  if (first != std::string::npos) options.pair = text.substr(first + 1, second - first - 1);
  if (second != std::string::npos) options.visible = text.substr(second + 1);
  try {
    rapt::formula(text.substr(0, first), options);
  } catch (const rapt::Error&) {
  }
  return 0;
}
