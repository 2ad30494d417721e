#pragma once

namespace rapt::cli {

// The whole of the program: 0 done, 1 the check it made failed, 2 bad input.
int run(int argc, const char* const* argv);

}  // namespace rapt::cli
