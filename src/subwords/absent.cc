#include "subwords/subwords.h"

// The program is built without a library of subwords: tasks/subwords.h then refuses them.
namespace rapt::inline v1::subwords {

void use_linked_library() {}

}  // namespace rapt::inline v1::subwords
