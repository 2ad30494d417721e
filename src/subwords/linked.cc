#include "rapt/subwords.h"
#include "subwords/subwords.h"

namespace rapt::inline v1::subwords {

void use_linked_library() { use_subwords(); }

}  // namespace rapt::inline v1::subwords
