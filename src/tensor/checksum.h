#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rapt::inline v1 {

// A 64-bit checksum against damage, not against deliberate collisions. Every step is invertible, so bytes that differ
// within one 8-byte word never have the same one.
std::uint64_t checksum(std::span<const std::byte> bytes);

// As 16 hexadecimal digits.
std::string checksum_text(std::span<const std::byte> bytes);

}  // namespace rapt::inline v1
