// The worked examples of the course documents: every printed number beside ours.
#include <filesystem>

#include "reproduce/part_list.h"
#include "reproduce/resources.h"
#include "reproduce/worked.h"

namespace rapt::reproduce {

Section run_examples(const Context& context) {
  Section section{"Worked examples", "Practical 10, Recitation 8, Assignment 6, Discussion 8"};
  section.say(
      "Each example is solved by the fused engine in double precision, step by step, and every number that a "
      "document prints is compared to its last digit. Where a document gives a formula without numbers, the "
      "example chooses the sizes, and the claim and the table below name the source of the numbers.");
  Commands commands;
  Table sources{"The examples, their sources, and where the compared numbers are from",
                {"example", "source", "numbers from", "numbers"},
                {},
                3};
  std::int64_t done = 0;
  const auto files = example_files();
  for (const EmbeddedFile& file : files) {
    context.progress(done++, static_cast<std::int64_t>(files.size()), std::string(file.name));
    // MulT has its own part.
    if (file.name.starts_with("000")) continue;
    const Worked worked = solve_example(file.name);
    commands.lines.push_back("rapt solve " + worked.file);
    const std::string& from = worked.problem.numbers_from;
    sources.rows.push_back({worked.problem.title, worked.problem.source,
                            worked.comparisons.empty() ? "–"
                            : from.empty()             ? "the document"
                                                       : from,
                            std::to_string(worked.comparisons.size())});
    // Some examples only show the method; their numbers are not printed in any document.
    if (!worked.comparisons.empty()) {
      section.claims.push_back(comparison_claim(worked));
      section.add(comparison_table(worked));
    }
    const bool drawn = !worked.solution.maps.empty() && worked.solution.maps.size() <= 2 &&
                       !worked.problem.vector_form && worked.problem.queries.empty();
    if (!drawn) continue;
    for (const solve::AttentionMap& map : worked.solution.maps)
      section.add(map_picture(worked, map, std::filesystem::path(file.name).stem().string() + "_" + map.name,
                              "Where each query looks: " + worked.problem.title + "."));
  }
  section.add(std::move(sources));
  section.add(std::move(commands));
  return section;
}

}  // namespace rapt::reproduce
