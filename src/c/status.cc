#include "c/status.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace rapt::inline v1::c {
namespace {

// Fixed memory: reporting an error must not need an allocation.
thread_local std::array<char, 2048> last_error{};

}  // namespace

void set_last_error(const char* text) noexcept {
  std::size_t length = std::min(std::strlen(text), last_error.size() - 1);
  // A multi-byte character is kept whole or left out.
  if (text[length] != '\0')
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0u) == 0x80u) --length;
  std::memcpy(last_error.data(), text, length);
  last_error[length] = '\0';
}

}  // namespace rapt::inline v1::c

const char* rapt_last_error(void) { return rapt::c::last_error.data(); }
