#pragma once

#include "tasks/experiment.h"

namespace rapt::inline v1::tasks {

// reverse, case and a user's own data: sequences from sequences.
Family sequence_family();

}  // namespace rapt::inline v1::tasks
