#pragma once

namespace rapt::inline v1::subwords {

// Gives tasks/subwords.h the library that this program is built with, where it is built with one.
void use_linked_library();

}  // namespace rapt::inline v1::subwords
