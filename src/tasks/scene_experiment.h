#pragma once

#include "tasks/experiment.h"

namespace rapt::tasks {

// Several tasks on every pixel of ray-cast scenes.
Family scene_family();

}  // namespace rapt::tasks
