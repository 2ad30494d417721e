#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "explorer/exhibit.h"
#include "tasks/sequence_run.h"

namespace rapt::explorer {

// A trained sequence model, shown at work.
class SequenceSubject {
 public:
  // Throws where the directory holds no run, or the model has no attention.
  explicit SequenceSubject(const std::filesystem::path& run);

  // Every attention of the model for this text: with its own answer, or with the target that is given. Throws for a
  // text without tokens and one that is longer than the model takes.
  Exhibit show(std::string_view text, std::string_view target = {}) const;

  // A text of the run's own data, for who gives none.
  std::string example() const;

 private:
  std::string title_;
  tasks::SequenceRun run_;
  tasks::Vocabulary source_, target_;
};

}  // namespace rapt::explorer
