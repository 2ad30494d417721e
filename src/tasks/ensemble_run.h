#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "models/ensemble.h"
#include "tasks/sequence_run.h"

namespace rapt::inline v1::tasks {

// Runs on sequences whose models answer together. The first one says how texts are read and written.
struct EnsembleRun {
  std::vector<SequenceRun> runs;

  const SequenceRunConfig& config() const { return runs.front().config; }
  // Refers to the runs, which must outlive it.
  models::Ensemble models() const;
};

// Throws if a directory holds no run, or one that reads or writes other symbols than the first.
EnsembleRun load_ensemble(std::span<const std::filesystem::path> directories);

}  // namespace rapt::inline v1::tasks
