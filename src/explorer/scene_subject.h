#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "explorer/exhibit.h"
#include "tasks/scene_run.h"

namespace rapt::explorer {

// A trained multi-task network and its attention.
class SceneSubject {
 public:
  // Throws if the directory holds no run on scenes.
  explicit SceneSubject(const std::filesystem::path& run);

  // Every attention of the network for one of the test scenes, by its number as text. Throws for other texts.
  Exhibit show(const std::string& number) const;

 private:
  std::string title_;
  tasks::SceneRunConfig config_;
  models::MultitaskNetwork network_;
  std::vector<float> values_;
};

}  // namespace rapt::explorer
