#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace rapt::cli {

// Help in lines of at most 100 columns; continuation lines are indented like the description. Set for the program,
// whose verbs inherit it.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace rapt::cli
