#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/array.h"
#include "tensor/files.h"

namespace rapt::inline v1 {

struct NamedArray {
  std::string name;
  Array array;
};

// An array to write, without a copy. `data` may be null if the shape has no elements.
struct NamedBytes {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
};

using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  std::vector<NamedArray> arrays;  // in the order of the data
  Metadata metadata;

  // Null if there is no such array.
  const Array* find(std::string_view name) const;
};

// Throws rapt::Error, naming the file, unless header and data agree in every byte; no claim of the header is trusted
// before its bytes are known to exist.
Safetensors read_safetensors(const std::filesystem::path& path);

// The same from memory; `name` is what errors call it.
Safetensors parse_safetensors(std::string_view bytes, const std::string& name);

// Written under a temporary name first. Arrays with wider elements come first, so that all are aligned; otherwise the
// order is kept.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedBytes> arrays,
                       const Metadata& metadata = {});

// The same as one of several files that appear together.
void stage_safetensors(StagedFiles& files, const std::filesystem::path& path, std::span<const NamedBytes> arrays,
                       const Metadata& metadata = {});

}  // namespace rapt::inline v1
