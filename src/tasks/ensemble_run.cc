#include "tasks/ensemble_run.h"

#include <string>
#include <utility>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::tasks {
namespace {

bool same_subwords(const LearnedSubwords& a, const LearnedSubwords& b) {
  if (!a.model || !b.model) return !a.model && !b.model;
  return a.model->bytes() == b.model->bytes() && a.kept == b.kept;
}

// How one side of two runs differs; empty if their tokens are the same.
std::string difference(const char* side, const std::vector<std::string>& first, const std::vector<std::string>& other,
                       const std::string& ending) {
  if (first == other) return "";
  const std::string got = first.size() == other.size() ? "others" : std::to_string(other.size());
  return "with the same " + counted(first.size(), std::string(side) + " symbol") + ending + got;
}

std::string difference(const std::string& name, const SequenceRunConfig& first, const SequenceRunConfig& other) {
  const std::string ending = " as " + name + ", got ";
  const DataConfig& a = first.data;
  const DataConfig& b = other.data;
  if (a.source != b.source) return "on the same task" + ending + "another";
  if (a.source_units != b.source_units || a.target_units != b.target_units)
    return "with the same kinds of tokens" + ending + "others";
  if (!same_subwords(a.source_subwords, b.source_subwords) || !same_subwords(a.target_subwords, b.target_subwords))
    return "with the same models of subwords" + ending + "others";
  const std::string sources = difference("source", first.source_symbols, other.source_symbols, ending);
  return sources.empty() ? difference("target", first.target_symbols, other.target_symbols, ending) : sources;
}

}  // namespace

models::Ensemble EnsembleRun::models() const {
  models::Ensemble all(*runs.front().model, runs.front().values.data());
  for (std::size_t n = 1; n < runs.size(); ++n) all.add(*runs[n].model, runs[n].values.data());
  return all;
}

EnsembleRun load_ensemble(std::span<const std::filesystem::path> directories) {
  if (directories.empty()) throw Error("ensemble: expected the directories of runs, got none");
  EnsembleRun ensemble;
  for (const std::filesystem::path& directory : directories) {
    SequenceRun run = load_sequence_run(directory);
    if (!ensemble.runs.empty())
      if (const std::string what = difference(directories.front().string(), ensemble.config(), run.config);
          !what.empty())
        throw Error(directory.string() + ": expected a run " + what +
                    "; train both on the same examples with the same --tokens and --vocabulary");
    ensemble.runs.push_back(std::move(run));
  }
  return ensemble;
}

}  // namespace rapt::inline v1::tasks
