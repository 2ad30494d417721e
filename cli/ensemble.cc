#include "cli/ensemble.h"

#include "cli/options.h"

namespace rapt::cli {

void add_ensemble(CLI::App& verb, std::vector<std::string>& runs) {
  verb.add_option("--ensemble", runs,
                  "Answer together with this run, by the mean of their probabilities; may be given several times")
      ->type_name("RUN")
      ->allow_extra_args(false)
      ->check(value_given());
}

std::vector<std::filesystem::path> run_paths(const std::string& run, const std::vector<std::string>& ensemble) {
  std::vector<std::filesystem::path> paths{run};
  paths.insert(paths.end(), ensemble.begin(), ensemble.end());
  return paths;
}

}  // namespace rapt::cli
