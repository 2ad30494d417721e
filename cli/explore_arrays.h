#pragma once

#include <filesystem>
#include <string>

#include "cli/attend_job.h"
#include "explorer/exhibit.h"

namespace rapt::cli {

// Whether the directory holds weights.npy, or q.npy and k.npy.
bool holds_arrays(const std::filesystem::path& directory);

// A directory of arrays to explore. weights.npy is [layers, heads, queries, keys]; q.npy and k.npy are [layers, heads,
// S, D] and are scored as mechanism.json and the options say. Leading sizes may be left out.
explorer::Exhibit exhibit_of_arrays(const std::filesystem::path& directory, AttendArguments options);

}  // namespace rapt::cli
