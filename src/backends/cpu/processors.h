#pragma once

#include <optional>
#include <string>

namespace rapt::inline v1 {

// Processors' worth of time that the control groups of this process leave it, rounded up: cpu.max (version 2) or
// cpu.cfs_quota_us (version 1), the least of its own group and all above. None where nothing limits it.
// `root` stands before /proc and before the groups' own folders.
std::optional<int> control_group_processors(const std::string& root = "");

// At least 1: what the affinity of this thread allows, or less where control groups do.
int usable_processors();

}  // namespace rapt::inline v1
