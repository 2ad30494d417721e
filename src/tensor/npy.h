#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tensor/array.h"
#include "tensor/files.h"

namespace rapt::inline v1 {

// Reads a .npy file of format 1.0, 2.0 or 3.0: bool, i1…i8, u1…u8, f2, f4, f8 of either byte order, rows or columns
// first. Throws rapt::Error, naming the file, for anything else; nothing larger than the file is ever allocated.
Array read_npy(const std::filesystem::path& path);

// The same from memory; `name` is what errors call it.
Array parse_npy(std::string_view bytes, const std::string& name);

// Writes format 1.0, little endian, under a temporary name first. bf16, which .npy cannot hold, becomes f4.
void write_npy(const std::filesystem::path& path, const Array& array);

// The same as one of several files that appear together.
void stage_npy(StagedFiles& files, const std::filesystem::path& path, const Array& array);

// What write_npy stores for a type: "<f4" and so on.
const char* npy_descr(ElementType type);

}  // namespace rapt::inline v1
