#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace rapt::cli {

// Help of which no line is wider than 100 columns; what continues a description is indented as it is. For the program, whose
// verbs inherit it.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace rapt::cli
