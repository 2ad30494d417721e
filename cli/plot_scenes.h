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

// Pictures of a run: input, truth and prediction, task by task.
void plot_scenes(const ScenesArguments& arguments);

}  // namespace rapt::cli
