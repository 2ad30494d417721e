#include "subwords/subwords.h"

// For builds without SentencePiece: tasks/subwords.h then refuses subwords.
namespace rapt::inline v1::subwords {

void use_linked_library() {}

}  // namespace rapt::inline v1::subwords
