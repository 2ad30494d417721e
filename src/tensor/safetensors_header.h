#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/safetensors.h"

// The JSON at the start of a safetensors file.
namespace rapt::inline v1::safetensors {

// Bytes count from the end of the header.
struct Entry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;
  Metadata metadata;
};

// Throws rapt::Error for anything else; offsets are not checked.
Header parse_header(std::string_view text);

// Padded with spaces, so that the data starts at a multiple of 8 bytes.
std::string header_text(std::span<const Entry> entries, const Metadata& metadata);

// For messages: printable and short.
std::string shown(std::string_view text);

}  // namespace rapt::inline v1::safetensors
