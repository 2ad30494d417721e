#include "tensor/checksum.h"

#include <array>
#include <cstdio>
#include <cstring>

namespace rapt::inline v1 {
namespace {

std::uint64_t mix(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 0x9e3779b97f4a7c15U;
  return sum ^ (sum >> 32);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = mix(0, bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    sum = mix(sum, word);
  }
  std::uint64_t rest = 0;
  if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  return mix(mix(sum, rest), 0);
}

std::string checksum_text(std::span<const std::byte> bytes) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(checksum(bytes)));
  return text.data();
}

}  // namespace rapt::inline v1
