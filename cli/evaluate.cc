#include <cmath>
#include <iostream>
#include <map>
#include <memory>

#include "cli/options.h"
#include "cli/run_report.h"
#include "cli/verbs.h"
#include "rapt/threads.h"
#include "tasks/sequence_experiment.h"
#include "tasks/sequence_run.h"
#include "training/sequence_objective.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "Without --data the run's own held-out examples are used: test, or --split valid or train. A prediction is right\n"
    "when it equals any target that the data gives for its source. --by-length shows where a model ends.\n"
    "\n"
    "Examples:\n"
    "  rapt evaluate runs/reverse\n"
    "  rapt evaluate runs/mine --data held_out.tsv --beam 5 --json\n"
    "  rapt evaluate runs/case --by-length\n";

struct EvaluateArguments {
  std::string run, data, split = "test", beam, length_penalty, threads;
  bool by_length = false;
  bool json = false;
};

tasks::Split split_of(const EvaluateArguments& a) {
  return parse_choice<tasks::Split>(
      "evaluate: --split", a.split,
      {{"test", tasks::Split::test}, {"valid", tasks::Split::valid}, {"train", tasks::Split::train}});
}

bool is_sequence_run(const std::string& run) {
  const std::string task = tasks::task_of_run(run);
  for (const tasks::TaskInfo& info : tasks::sequence_family().tasks)
    if (info.name == task) return true;
  return false;
}

// A model whose numbers overflow has no score worth printing.
void require_finite(const std::string& run, const training::Scores& scores) {
  if (!std::isfinite(scores.loss))
    throw Error("evaluate: " + run + ": expected a loss that is a number, got " + std::to_string(scores.loss));
}

// Runs on images and scenes: their own held-out examples.
void evaluate_other(const EvaluateArguments& a) {
  if (!a.data.empty() || !a.beam.empty() || !a.length_penalty.empty() || a.by_length)
    throw Error("evaluate: --data, --beam, --length-penalty and --by-length are for runs on sequences; " + a.run +
                " is a run on " + tasks::task_of_run(a.run));
  const int threads = a.threads.empty() ? default_threads() : parse_threads("evaluate: --threads", a.threads);
  const std::unique_ptr<tasks::Experiment> run = tasks::open_experiment(a.run);
  const std::vector<float> values = tasks::best_weights(a.run, run->objective()->parameters());
  const auto scores = run->score(split_of(a), values.data(), threads);
  if (!scores) throw Error("evaluate: --split: the run has no examples for " + a.split);
  require_finite(a.run, *scores);
  Json result{{"run", a.run}};
  result.update(scores_json(*scores));
  if (a.json) std::cout << result.dump(2) << std::endl;
  else std::cout << scores_line(*scores) << "\n";
}

std::vector<tasks::Example> examples_of(const EvaluateArguments& a, tasks::SequenceRunConfig& config) {
  if (!a.data.empty()) {
    if (config.data.source == tasks::Source::cases) {
      // Its sources have a tag that is one token.
      std::vector<tasks::Example> list;
      for (const tasks::Example& e :
           tasks::read_pairs(a.data, tasks::Units::characters, tasks::Units::characters, config.data.longest).examples)
        list.push_back({tasks::split_case_source(tasks::join(e.source, tasks::Units::characters)), e.target});
      return list;
    }
    return tasks::read_pairs(a.data, config.data.source_units, config.data.target_units, config.data.longest).examples;
  }
  tasks::TaskData data = tasks::load_data(config.data);
  const tasks::Split split = split_of(a);
  std::vector<tasks::Example>& list = split == tasks::Split::test    ? data.test
                                      : split == tasks::Split::valid ? data.valid
                                                                     : data.train;
  if (list.empty())
    throw Error("evaluate: --split: the run has no examples for " + a.split + "; give some by --data FILE");
  return std::move(list);
}

void evaluate(const EvaluateArguments& a) {
  if (!is_sequence_run(a.run)) return evaluate_other(a);
  tasks::SequenceRun run = tasks::load_sequence_run(a.run);
  training::SearchOptions search;
  if (!a.beam.empty()) search.beam = static_cast<int>(parse_integers("evaluate: --beam", a.beam, "1 to 1000", 1)[0]);
  if (search.beam < 1 || search.beam > 1000) refuse("evaluate: --beam", a.beam, "1 to 1000");
  if (!a.length_penalty.empty())
    search.length_penalty = parse_number("evaluate: --length-penalty", a.length_penalty, "a number");
  const int threads = a.threads.empty() ? default_threads() : parse_threads("evaluate: --threads", a.threads);
  const std::vector<tasks::Example> examples = examples_of(a, run.config);
  const std::vector<training::Question> all = tasks::questions(run.config, examples);
  const auto score = [&](std::span<const training::Question> questions) {
    return training::validate(*run.model, run.values.data(), questions, search, threads);
  };
  const training::Scores total = named(score(all));
  require_finite(a.run, total);
  Json result{{"run", a.run}, {"beam", search.beam}};
  result.update(scores_json(total));
  std::vector<std::vector<std::string>> table{{"source length", "sequences", "exact match", "symbol error"}};
  if (a.by_length) {
    std::map<std::size_t, std::vector<training::Question>> groups;
    for (const training::Question& q : all) groups[q.source.size()].push_back(q);
    for (const auto& [length, group] : groups) {
      const training::Validation v = score(group);
      Json row{{"length", length}};
      row.update(scores_json(named(v)));
      result["by_length"].push_back(row);
      table.push_back({std::to_string(length), std::to_string(group.size()), format_number(v.scores.exact_match()),
                       format_number(v.scores.symbol_error_rate())});
    }
  }
  if (a.json) {
    std::cout << result.dump(2) << std::endl;
    return;
  }
  std::cout << scores_line(total) << "\n";
  if (a.by_length) std::cout << format_table(table);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto a = std::make_shared<EvaluateArguments>();
  CLI::App* verb = app.add_subcommand("evaluate", "Score a trained model on held-out data");
  verb->footer(kFooter);
  verb->add_option("RUN", a->run, "the directory of a run")->required();
  verb->add_option("--data", a->data, "lines of source TAB target")->check(value_given());
  verb->add_option("--split", a->split, "of the run's own data: test, valid or train");
  verb->add_option("--beam", a->beam, "hypotheses kept while searching (1: greedy)");
  verb->add_option("--length-penalty", a->length_penalty, "divide scores by ((5 + length)/6)^X");
  verb->add_flag("--by-length", a->by_length, "also a line for each source length");
  verb->add_option("--threads", a->threads, "threads; the result does not depend on it");
  verb->add_flag("--json", a->json, "print the result as JSON");
  verb->callback([a] { evaluate(*a); });
}

}  // namespace rapt::cli
