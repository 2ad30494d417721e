#pragma once

#include "tasks/experiment.h"

namespace rapt::inline v1::tasks {

// Several tasks on every pixel of ray-cast scenes.
Family scene_family();

}  // namespace rapt::inline v1::tasks
