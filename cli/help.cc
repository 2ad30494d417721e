#include "cli/help.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.h"

namespace rapt::cli {
namespace {

constexpr std::size_t kHelpColumns = 100;

// The column where a description begins: after the first gap of two spaces, otherwise at the first word.
std::size_t description_start(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  const std::size_t gap = line.find("  ", first);
  return gap == std::string::npos ? first : line.find_first_not_of(' ', gap);
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::istringstream lines(CLI::Formatter::make_help(app, std::move(name), mode));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      // CLI11 ends a group with two empty lines.
      if (line.empty() && (text.empty() || text.ends_with("\n\n"))) continue;
      if (character_count(line) <= kHelpColumns) {
        text += line + "\n";
        continue;
      }
      const std::size_t start = description_start(line);
      std::string before = line.substr(0, start);
      const std::string indent(character_count(before), ' ');
      for (const std::string& part : wrapped(line.substr(start), kHelpColumns - indent.size())) {
        text += std::exchange(before, indent) + part + "\n";
      }
    }
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace rapt::cli
