#pragma once

#include "tasks/experiment.h"

namespace rapt::inline v1::tasks {

// reverse, case and anybody's pairs: sequences from sequences.
Family sequence_family();

}  // namespace rapt::inline v1::tasks
