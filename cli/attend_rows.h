#pragma once

#include <filesystem>

#include "cli/attend_job.h"
#include "rapt/communicator.h"
#include "tensor/files.h"

namespace rapt::cli {

// A file of all processes' rows: process 0 writes them in order as they come, and holds no more than one piece of them.
void stage_share(StagedFiles& files, const std::filesystem::path& path, const NamedArray& array, Communicator& world);

}  // namespace rapt::cli
