#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "backends/mpi/session.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/run_report.h"
#include "cli/train_options.h"
#include "cli/verbs.h"
#include "rapt/threads.h"
#include "tasks/experiment.h"
#include "training/trainer.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "TASK is one of rapt list: sequences (reverse, case), images (digits, shapes, ...), or scenes, several tasks on\n"
    "every pixel; --data alone trains on your own lines of source TAB target. RUN becomes a directory with "
    "config.json,\n"
    "model.safetensors (the best weights), state.safetensors (to go on from) and metrics.jsonl. The same settings "
    "give\n"
    "the same weights, on any number of threads. Ctrl-C saves; --resume goes on\n"
    "as if nothing had happened. mpirun -n N rapt train shares the parts of every batch (--parts) among N processes, "
    "for\n"
    "the same weights; --resume may have another N.\n"
    "\n"
    "Examples:\n"
    "  rapt train reverse --attention dot --out runs/reverse\n"
    "  rapt train reverse --attention none --out runs/reverse_without\n"
    "  rapt train reverse --compare attention=none,dot,additive --out runs/compare\n"
    "  rapt train reverse --attention dot --normalize sparsemax --out runs/sparse\n"
    "  rapt train case --model transformer --positions rotary --out runs/case\n"
    "  rapt train digits --encoding quadratic --out runs/digits\n"
    "  rapt train shapes --model cnn --out runs/shapes\n"
    "  rapt train cifar10 --data cifar-10-batches-bin --encoding learned_2d --out runs/cifar10\n"
    "  rapt train scenes --tasks depth,normals --sharing shared --out runs/scenes\n"
    "  rapt train --data pairs.tsv --tokens characters --epochs 20 --out runs/mine\n"
    "  rapt train --resume --out runs/mine\n";

struct TrainArguments {
  std::string task, data, valid, test, out, model, config, tokens, source_tokens, target_tokens, longest, threads;
  std::string compare;
  bool resume = false;
  bool json = false;
};

std::atomic<bool> interrupted{false};

// The first signal asks for a stop after this step; the second ends the process as usual.
class Interrupt {
 public:
  Interrupt() {
    interrupted = false;
    for (const int signal : {SIGINT, SIGTERM})
      std::signal(signal, [](int number) {
        interrupted = true;
        std::signal(number, SIG_DFL);
      });
  }
  ~Interrupt() {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
};

std::map<std::string, std::string> data_options(const TrainArguments& a) {
  std::map<std::string, std::string> options;
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) options[name] = text;
  };
  // A run must find its files from wherever it is resumed.
  const auto absolute = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
  };
  put(a.task.empty() ? "train" : "data", absolute(a.data));
  put("valid", absolute(a.valid));
  put("test", absolute(a.test));
  put("source_tokens", a.source_tokens.empty() ? a.tokens : a.source_tokens);
  put("target_tokens", a.target_tokens.empty() ? a.tokens : a.target_tokens);
  put("longest", a.longest);
  put("model", a.model);
  return options;
}

std::unique_ptr<tasks::Experiment> new_run(const TrainArguments& a, std::map<std::string, std::string> settings) {
  if (a.task.empty() && a.data.empty())
    throw Error("train: got neither a TASK nor --data FILE, takes one of them; `rapt list` names the tasks");
  if (a.task == "pairs") throw Error("train: the task pairs takes its file by --data FILE");
  settings.merge(data_options(a));
  if (std::filesystem::exists(std::filesystem::path(a.out) / "config.json"))
    throw Error("train: --out: " + a.out +
                " holds a run already; --resume goes on with it, another name starts a new one");
  return tasks::start_experiment(a.task.empty() ? "pairs" : a.task, {a.config, std::move(settings)});
}

// A resumed run keeps its settings; it may only be made longer.
std::unique_ptr<tasks::Experiment> old_run(const TrainArguments& a,
                                           const std::map<std::string, std::string>& settings) {
  for (const auto& [name, text] : settings)
    if (name != "epochs" && name != "patience")
      throw Error("train: --" + name +
                  ": a run keeps its settings when it is resumed; only --epochs and --patience may change");
  if (!a.task.empty() || !a.data.empty() || !a.model.empty() || !a.config.empty())
    throw Error("train: --resume takes no task, data, model or configuration: the run in " + a.out + " has its own");
  return tasks::open_experiment(a.out, settings);
}

training::Observer observer(const training::TrainOptions& options, const std::string& unit, Progress& bar, bool print,
                            std::int64_t batches) {
  training::Observer o;
  o.stop = [] { return interrupted.load(); };
  o.on_step = [&bar, batches, epochs = options.epochs, unit](const training::StepReport& r) {
    char note[160];
    std::snprintf(note, sizeof note, "epoch %lld/%lld  loss %.4f  %ss right %.1f %%  %.0f %ss/s",
                  static_cast<long long>(r.epoch), static_cast<long long>(epochs), r.loss, unit.c_str(),
                  100 * r.accuracy, r.units_per_second, unit.c_str());
    bar.update((r.epoch - 1) * batches + r.batch, note);
  };
  o.on_epoch = [&bar, print, unit](const training::EpochReport& r) {
    if (!print) return;
    bar.clear();
    char line[192];
    std::snprintf(line, sizeof line, "epoch %3lld  loss %.4f  %ss right %6.2f %%", static_cast<long long>(r.epoch),
                  r.loss, unit.c_str(), 100 * r.accuracy);
    std::cout << line;
    if (r.valid) {
      std::cout << "   valid: loss " << format_number(r.valid->loss);
      for (const training::Score& score : r.valid->list)
        if (score.form != training::Score::Form::count) std::cout << "  " << named_score(score);
    }
    std::cout << (r.best ? "  *" : "") << "   " << format_seconds(r.seconds) << std::endl;
  };
  return o;
}

// What is told at the end of a run; the scores of its held-out data are kept for a table.
struct Trained {
  Json json;
  std::vector<training::Score> scores;
  std::string next_command;
};

std::string next_command(tasks::Look look, const std::string& run) {
  switch (look) {
    case tasks::Look::answers: return "rapt decode " + run + " TEXT";
    case tasks::Look::head_places: return "rapt plot centers " + run + " --out centers.svg";
    case tasks::Look::scenes: return "rapt plot scenes " + run + " 0 --out scenes.png";
    case tasks::Look::scores: break;
  }
  return "rapt evaluate " + run;
}

// Messages of the library name settings; here they are options: "setting max_length: …" becomes "train: --max-length: …".
std::string in_options(std::string_view message) {
  const auto after = [&](std::string_view prefix) { return std::string(message.substr(prefix.size())); };
  if (message.starts_with("normalizer: ")) return "train: --normalize: " + after("normalizer: ");
  if (message.starts_with("mechanism: ")) return "train: --attention: " + after("mechanism: ");
  const std::size_t end = message.find(": ");
  if (!message.starts_with("setting ") || end == std::string_view::npos) return std::string(message);
  std::string name(message.substr(8, end - 8));
  std::replace(name.begin(), name.end(), '_', '-');
  return "train: --" + name + std::string(message.substr(end));
}

Trained train(const TrainArguments& a, const std::map<std::string, std::string>& settings) {
  const int threads = a.threads.empty() ? default_threads() : parse_threads("train: --threads", a.threads);
  const std::unique_ptr<tasks::Experiment> run = a.resume ? old_run(a, settings) : new_run(a, settings);
  const std::shared_ptr<training::Objective> objective = run->objective();
  const training::TrainOptions& options = run->training();
  // Everybody has found that the run can start before the first file is there.
  const training::Processes processes(mpi::world());
  processes.meet();
  training::Trainer trainer(objective, options, a.out, threads, processes);
  if (!processes.writes() && !a.resume) {
    // Directories and files are process 0's.
  } else if (!a.resume) {
    std::error_code error;
    std::filesystem::create_directories(a.out, error);
    if (error) throw Error("train: --out: cannot make " + a.out + ": " + error.message());
  } else {
    bool has_state = std::filesystem::exists(std::filesystem::path(a.out) / "state.safetensors");
    processes.share(&has_state, sizeof has_state);
    if (has_state) trainer.resume();
  }
  if (processes.writes()) run->write_config(a.out);
  const std::int64_t per_epoch = objective->batches();
  const std::int64_t parameters = objective->parameters().count();
  if (!a.json)
    std::cout << run->about_model() << "; " << parameters << " parameters\n"
              << run->about_data() << "; " << per_epoch << " steps an epoch, " << processes.text() << threads
              << " threads\n";
  const Interrupt guard;
  Progress bar("training", options.epochs * per_epoch);
  const auto end = trainer.run(observer(options, std::string(objective->unit()), bar, !a.json, per_epoch));
  bar.clear();
  const training::Progress& progress = trainer.progress();
  if (end == training::Trainer::End::stopped) {
    std::cout << "Stopped after epoch " << progress.epoch << " and " << progress.batch
              << " steps; everything is saved. To go on:\n  rapt train --resume --out " << a.out << std::endl;
    throw ExitStatus{130};
  }
  Trained result{{{"run", a.out},
                  {"epochs", progress.epoch},
                  {"best_epoch", progress.best_epoch},
                  {"parameters", parameters},
                  {"seconds", progress.seconds}},
                 {},
                 next_command(run->look(), a.out)};
  const char* held_out = "test";
  auto scores = run->score(tasks::Split::test, trainer.values().data(), threads);
  if (!scores) {
    held_out = "valid";
    scores = run->score(tasks::Split::valid, trainer.values().data(), threads);
  }
  if (!scores) return result;
  result.json["held_out"] = held_out;
  result.json.update(scores_json(*scores));
  result.scores = scores->list;
  if (!a.json)
    std::cout << "Best weights (epoch " << progress.best_epoch << "), held-out data: " << scores_line(*scores) << "\n";
  return result;
}

// One run for each value of a setting, in directories of their own below --out, and a table at the end.
Json compare(const TrainArguments& a, const std::map<std::string, std::string>& settings) {
  const auto [name, list] = parse_assignment("train: --compare", a.compare);
  std::string key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end == begin) refuse("train: --compare", a.compare, "NAME=VALUE,VALUE,… without empty values");
    values.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table{{name, "parameters", "best epoch"}};
  for (const std::string& value : values) {
    TrainArguments one = a;
    one.out = (std::filesystem::path(a.out) / value).string();
    std::map<std::string, std::string> own = settings;
    if (key == "model") one.model = value;
    else own[key] = value;
    // A comparison that goes on keeps what is done and starts what is not.
    one.resume = a.resume && std::filesystem::exists(std::filesystem::path(one.out) / "config.json");
    if (one.resume) {
      one.task = one.data = one.model = one.config = "";
      own.clear();
    }
    if (!a.json) std::cout << "== " << name << " " << value << "\n";
    Trained trained = train(one, own);
    Json& row = trained.json;
    std::vector<std::string>& cells = table.emplace_back();
    cells = {value, std::to_string(row["parameters"].get<std::int64_t>()),
             std::to_string(row["best_epoch"].get<std::int64_t>())};
    const bool first = table.size() == 2;
    for (const training::Score& score : trained.scores) {
      if (score.form == training::Score::Form::count) continue;
      std::string title = score.name;
      std::replace(title.begin(), title.end(), '_', ' ');
      if (first) table[0].push_back(title);
      cells.push_back(score_text(score));
    }
    if (first) table[0].emplace_back("time");
    cells.push_back(format_seconds(row["seconds"]));
    row[name] = value;
    rows.push_back(std::move(row));
  }
  if (!a.json) std::cout << "\n" << format_table(table);
  return rows;
}

void train_as_asked(const TrainArguments& a, const std::map<std::string, std::string>& settings) {
  if (a.out.empty()) throw Error("train: --out RUN is missing: the directory of the run");
  if (!a.compare.empty()) {
    const Json rows = compare(a, settings);
    if (a.json) std::cout << rows.dump(2) << std::endl;
    return;
  }
  const Trained trained = train(a, settings);
  if (a.json) std::cout << trained.json.dump(2) << std::endl;
  else std::cout << "Try it:  " << trained.next_command << std::endl;
}

void run_train(const TrainArguments& a, const std::map<std::string, std::string>& settings) {
  try {
    train_as_asked(a, settings);
  } catch (const Error& error) {
    throw Error(in_options(error.what()));
  }
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb =
      app.add_subcommand("train", "Train a model: sequences from sequences, classes of images, tasks on every pixel");
  verb->footer(kFooter);
  verb->add_option("TASK", arguments->task, "A task of rapt list");
  verb->add_option("--data", arguments->data,
                   "your own data: lines of source TAB target; or the directory of cifar10, cifar100 or mnist")
      ->check(value_given());
  verb->add_option("--valid", arguments->valid, "lines to validate on; without it, 5 % of --data")
      ->check(value_given());
  verb->add_option("--test", arguments->test, "lines to test on at the end")->check(value_given());
  verb->add_option("--tokens", arguments->tokens, "what a token of a line is: characters or words");
  verb->add_option("--source-tokens", arguments->source_tokens, "the same for sources alone");
  verb->add_option("--target-tokens", arguments->target_tokens, "the same for targets alone");
  verb->add_option("--longest", arguments->longest, "most tokens of a side of a line (512)");
  verb->add_option("--out", arguments->out, "the directory of the run")->check(value_given());
  verb->add_option("--model", arguments->model,
                   "seq2seq (the default) or transformer; of images attention (the default) or cnn");
  verb->add_option("--config", arguments->config, "a JSON file of settings; options come on top")->check(value_given());
  verb->add_option("--compare", arguments->compare,
                   "NAME=VALUE,VALUE,…: a run for each value of a setting, and a table")
      ->check(value_given());
  verb->add_flag("--resume", arguments->resume, "go on with the run in --out");
  verb->add_option("--threads", arguments->threads, "threads; the result does not depend on it");
  verb->add_flag("--json", arguments->json, "print the result as JSON");
  const SettingOptions settings(*verb);
  verb->callback([arguments, settings] { run_train(*arguments, settings.given()); });
}

}  // namespace rapt::cli
