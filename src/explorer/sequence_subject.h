#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "explorer/exhibit.h"
#include "tasks/sequence_run.h"

namespace rapt::explorer {

// A trained sequence model and its attention.
class SequenceSubject {
 public:
  // Throws if the directory holds no run, or if the model has no attention.
  explicit SequenceSubject(const std::filesystem::path& run);

  // Every attention of the model for this text, with its own answer or the given target. Throws for a text without
  // tokens, or longer than the model takes.
  Exhibit show(std::string_view text, std::string_view target = {}) const;

  // A text of the run's own data, if the user gives none.
  std::string example() const;

 private:
  std::string title_;
  tasks::SequenceRun run_;
  tasks::Vocabulary source_, target_;
};

}  // namespace rapt::explorer
