#pragma once

#include <string>
#include <string_view>

namespace rapt::cli {

// A message of attend(), which names its arguments, with the names of the options of `rapt attend` in their places:
// "attend: key_lengths: …" becomes "attend: --key-lengths: …". Other messages stay as they are.
std::string in_options(std::string_view message);

}  // namespace rapt::cli
