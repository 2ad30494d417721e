#pragma once

#include <CLI/CLI.hpp>

// The verbs of the command line. A new verb is one file cli/NAME.cc that defines
// `void rapt::cli::add_NAME(CLI::App& app)`, and one line here. It adds a subcommand whose callback does the work.
#define RAPT_VERBS(VERB) \
  VERB(list)             \
  VERB(attend)           \
  VERB(solve)            \
  VERB(count)            \
  VERB(bench)            \
  VERB(train)            \
  VERB(evaluate)         \
  VERB(decode)           \
  VERB(plot)             \
  VERB(explore)          \
  VERB(conv)             \
  VERB(reproduce)

namespace rapt::cli {

// Thrown by a verb's callback to end with this status and no message: 1 = the check it made failed.
// Bad input is thrown as rapt::Error, which prints one line on stderr and ends with 2.
struct ExitStatus {
  int code = 0;
};

#define RAPT_DECLARE_VERB(name) void add_##name(CLI::App& app);
RAPT_VERBS(RAPT_DECLARE_VERB)
#undef RAPT_DECLARE_VERB

}  // namespace rapt::cli
