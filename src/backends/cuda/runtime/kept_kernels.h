#pragma once

#include <optional>
#include <string>

#include "backends/cuda/runtime/compile.h"

// Compiled kernels in a directory, each in a file named after what it was made from.
namespace rapt::inline v1::cuda {

// A hash of the bytes. Files also hold what they were made from, so it need not be cryptographic.
std::string digest(std::string_view bytes);

// None if there is no such file, or if it is incomplete.
std::optional<CompiledKernel> find_kept(const std::string& folder, std::string_view key);
// The file appears whole or not at all. Failure to write is ignored.
void keep(const std::string& folder, std::string_view key, const CompiledKernel& kernel);

}  // namespace rapt::inline v1::cuda
