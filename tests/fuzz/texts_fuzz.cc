// Files of pairs of texts.

#include <cstdint>
#include <string_view>

#include "rapt/error.h"
#include "tasks/pairs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  using rapt::tasks::Units;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Units source = data[0] & 1 ? Units::words : Units::characters;
  const Units target = data[0] & 2 ? Units::words : Units::characters;
  try {
    rapt::tasks::parse_pairs(text, "fuzz", source, target, 1 + (data[0] >> 2));
  } catch (const rapt::Error&) {
  }
  return 0;
}
