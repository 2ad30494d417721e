#pragma once

namespace rapt::inline v1::subwords {

// Registers the subword library that this program is built with, if any, with tasks/subwords.h.
void use_linked_library();

}  // namespace rapt::inline v1::subwords
