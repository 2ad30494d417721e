#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/array.h"
#include "tensor/files.h"

namespace rapt::inline v1 {

// Reads a .npy file of format 1.0, 2.0 or 3.0: bool, i1…i8, u1…u8, f2, f4, f8 of either byte order, row-major or
// column-major. Throws rapt::Error, naming the file, for anything else; never allocates more than the file's size.
Array read_npy(const std::filesystem::path& path);

// Rows are the dimension before the last one.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};

// Some rows of a file: `choose` gets the whole shape and returns the ranges to read, in order. Of a row-major file in
// this machine's byte order nothing else is kept in memory.
Array read_npy_rows(const std::filesystem::path& path,
                    const std::function<std::vector<RowRange>(const std::vector<std::int64_t>& shape)>& choose);

// The same as read_npy() from memory; `name` is what errors call it.
Array parse_npy(std::string_view bytes, const std::string& name);

// Writes format 1.0, little endian, under a temporary name first. bf16, which .npy cannot hold, becomes f4.
void write_npy(const std::filesystem::path& path, const Array& array);

// The same as one of several files that appear together.
void stage_npy(StagedFiles& files, const std::filesystem::path& path, const Array& array);

// Everything before the data.
std::string npy_header(ElementType type, const std::vector<std::int64_t>& shape);

// What write_npy stores for a type: "<f4" and so on.
const char* npy_descr(ElementType type);

}  // namespace rapt::inline v1
