#pragma once

#include <string>
#include <vector>

#include "cli/plot_output.h"

namespace rapt::cli {

struct ScenesArguments {
  Output output;
  std::string run;
  std::vector<std::string> scenes;
};

// A run's pictures: what goes in, the truth and what the network says, task by task.
void plot_scenes(const ScenesArguments& arguments);

}  // namespace rapt::cli
