// Experiments of Assignment 6 and MulT at the documents' own sizes, which take a GPU or hours; shown as they were stored.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "reproduce/part_list.h"
#include "reproduce/resources.h"
#include "reproduce/stored.h"

namespace rapt::reproduce {
namespace {

// Each experiment of a file, by the name that its provenance has.
struct Planned {
  std::string_view file;
  std::string_view of;
  std::string_view what;
};

constexpr Planned kPlanned[] = {
    {"cifar10.json", "runs", "the accuracy on CIFAR-10 of the paper's attention models and ResNet-18"},
    {"cifar10.json", "speed", "the speed of their training steps"},
    {"scenes.json", "variants", "the scores of shared attention on 10,000 scenes"},
};

}  // namespace

Section run_experiments(const Context&) {
  Section section{"Experiments at full size", "Assignment 6, Q2; MulT, 5"};
  section.say(
      "Not computed by this run: results of longer experiments, stored with their date, machine and commands. The "
      "files in data/experiments hold every number that was measured.");
  std::vector<std::string> stored;
  for (const EmbeddedFile& file : experiment_files()) {
    const StoredResults results = parse_stored(file.name, file.text);
    for (const Origin& origin : results.origins) stored.push_back(std::string(file.name) + "/" + origin.of);
    add_stored(results, section);
  }
  std::string missing;
  for (const Planned& one : kPlanned)
    if (std::ranges::find(stored, std::string(one.file) + "/" + std::string(one.of)) == stored.end())
      missing += std::string(missing.empty() ? "" : "; ") + std::string(one.what);
  if (!missing.empty()) section.say("Not run at full size yet, so no result is stored: " + missing + ".");
  return section;
}

}  // namespace rapt::reproduce
