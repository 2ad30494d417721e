#include "reproduce/worked.h"

#include <algorithm>
#include <filesystem>

#include "rapt/error.h"
#include "reproduce/format.h"
#include "reproduce/resources.h"
#include "solve/picture.h"

namespace rapt::reproduce {
namespace {

// Examples may build on others beside them; both come from what the tool carries.
std::string carried(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  for (const EmbeddedFile& example : example_files())
    if (example.name == name) return std::string(example.text);
  throw Error("reproduce: expected one of the worked examples, got " + name);
}

}  // namespace

std::string Worked::document() const { return problem.title.substr(0, problem.title.find(": ")); }

std::string Worked::subject() const {
  const std::size_t colon = problem.title.find(": ");
  std::string text = colon == std::string::npos ? problem.title : problem.title.substr(colon + 2);
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::int64_t Worked::agreeing() const {
  return std::count_if(comparisons.begin(), comparisons.end(), [](const auto& c) { return c.agrees; });
}

Worked solve_example(std::string_view name) {
  Worked worked;
  worked.file = "examples/" + std::string(name);
  worked.problem = solve::read_problem(worked.file, carried);
  worked.solution = solve::solve(worked.problem);
  worked.comparisons = solve::compare(worked.problem, worked.solution);
  return worked;
}

Table comparison_table(const Worked& worked) {
  const std::string& from = worked.problem.numbers_from;
  Table table{worked.problem.title + ": each number " + (from.empty() ? "as printed" : "from " + from) + ", and ours",
              {"number", from.empty() ? "printed" : "expected", "ours", "agrees"},
              {},
              1,
              true};
  for (const solve::Comparison& c : worked.comparisons)
    table.rows.push_back({c.id + "[" + std::to_string(c.row) + "," + std::to_string(c.col) + "]", c.printed, c.ours,
                          c.agrees ? "yes" : "NO"});
  return table;
}

Claim comparison_claim(const Worked& worked) {
  const auto count = static_cast<std::int64_t>(worked.comparisons.size());
  return {worked.document(),
          worked.subject(),
          grouped(count) + (count == 1 ? " number" : " numbers") +
              (worked.problem.numbers_from.empty() ? "" : " from " + worked.problem.numbers_from),
          of(worked.agreeing(), count) + " agree",
          "every number to its last given digit",
          count > 0 && worked.agreeing() == count,
          Weight::must_hold};
}

Picture map_picture(const Worked& worked, const solve::AttentionMap& map, std::string name, std::string caption) {
  Picture picture{std::move(name), draw(solve::picture_of(worked.problem, map)), std::move(caption)};
  if (picture.drawing.description.empty()) picture.drawing.description = picture.caption;
  return picture;
}

}  // namespace rapt::reproduce
