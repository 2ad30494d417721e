#pragma once

#include "tasks/experiment.h"

namespace rapt::inline v1::tasks {

// reverse, case and a user's own data: sequence to sequence.
Family sequence_family();

}  // namespace rapt::inline v1::tasks
