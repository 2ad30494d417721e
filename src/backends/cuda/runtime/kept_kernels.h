#pragma once

#include <optional>
#include <string>

#include "backends/cuda/runtime/compile.h"

// Compiled kernels in a folder, each in a file named after what it was made from.
namespace rapt::inline v1::cuda {

// A number that follows from the bytes; files compare what they were made from, so that it need not be a secret.
std::string digest(std::string_view bytes);

// None where there is no such file, or where it is not whole.
std::optional<CompiledKernel> find_kept(const std::string& folder, std::string_view key);
// Appears at once or not at all. What cannot be written is not kept.
void keep(const std::string& folder, std::string_view key, const CompiledKernel& kernel);

}  // namespace rapt::inline v1::cuda
