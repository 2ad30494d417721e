#pragma once

#include "rapt/api.h"

// rapt::subwords, a separate library: runs on subwords, through SentencePiece.
namespace rapt::inline v1 {

// From now on TrainedModel opens runs on subwords too. Call it once, before the first of them.
RAPT_API void use_subwords();

}  // namespace rapt::inline v1
