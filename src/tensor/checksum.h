#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rapt::inline v1 {

// A 64-bit number for some bytes, to detect damage; it is no defence against deliberate collisions. Every step can
// be undone, so bytes that differ within one word of 8 never have the same one.
std::uint64_t checksum(std::span<const std::byte> bytes);

// As 16 hexadecimal digits.
std::string checksum_text(std::span<const std::byte> bytes);

}  // namespace rapt::inline v1
