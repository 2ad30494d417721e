#pragma once

#include "reproduce/parts.h"

// Instant parts: one that holds, one whose claim fails, one that is informative, and some that throw.
namespace rapt::test {

reproduce::Section good(const reproduce::Context& context);
reproduce::Section broken_claim(const reproduce::Context& context);
reproduce::Section informative(const reproduce::Context& context);
reproduce::Section throws(const reproduce::Context& context);
reproduce::Section interrupts(const reproduce::Context& context);

// A hostile name or title.
inline constexpr const char* kHostile = "<script>alert('1')</script> & \"quoted\" \x01 \xff";

}  // namespace rapt::test
