#pragma once

#include "reproduce/parts.h"

// Parts that need no time: one that holds, one whose claim fails, one that is only informative, and ones that throw.
namespace rapt::test {

reproduce::Section good(const reproduce::Context& context);
reproduce::Section broken_claim(const reproduce::Context& context);
reproduce::Section informative(const reproduce::Context& context);
reproduce::Section throws(const reproduce::Context& context);
reproduce::Section interrupts(const reproduce::Context& context);

// What a hostile name or title may hold.
inline constexpr const char* kHostile = "<script>alert('1')</script> & \"quoted\" \x01 \xff";

}  // namespace rapt::test
