#pragma once

#include <filesystem>
#include <vector>

#include "explorer/exhibit.h"

namespace rapt::explorer {

// The epochs of a metrics.jsonl whose lines hold "centers" [layer][head][2] and, if they do, "covariances"
// [layer][head][2][2]; other lines are skipped. No file: none. Throws, naming file and line, for broken ones.
std::vector<Epoch> read_epochs(const std::filesystem::path& path);

}  // namespace rapt::explorer
