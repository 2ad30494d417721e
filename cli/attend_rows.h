#pragma once

#include <filesystem>

#include "cli/attend_job.h"
#include "rapt/communicator.h"
#include "tensor/files.h"

namespace rapt::cli {

// A file with the rows of all processes: process 0 writes them as they arrive, holding one piece at a time.
void stage_share(StagedFiles& files, const std::filesystem::path& path, const NamedArray& array, Communicator& world);

}  // namespace rapt::cli
