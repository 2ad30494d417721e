#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "backends/mpi/session.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/run_report.h"
#include "cli/train_options.h"
#include "cli/verbs.h"
#include "rapt/threads.h"
#include "tasks/config_file.h"
#include "tasks/experiment.h"
#include "tasks/image_fields.h"
#include "tasks/sequence_run.h"
#include "training/not_finite.h"
#include "training/run_lock.h"
#include "training/trainer.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTrainFooter =
    "TASK is one of rapt list: sequences (reverse, case), images (digits, shapes, ...), or scenes,\n"
    "several tasks on every pixel; --data alone trains on your own lines of source TAB target. RUN\n"
    "becomes a directory with config.json, model.safetensors (the best weights), state.safetensors (what\n"
    "--resume reads) and metrics.jsonl. The same settings give the same weights, on any number of\n"
    "threads. Ctrl-C saves; --resume continues exactly where it stopped, and starts the run where there\n"
    "is none yet: a batch queue repeats one command.\n"
    "Values in [] are the defaults, the usual one first; tasks and models with another one follow.\n"
    "RUN/config.json has those of the run.\n"
    "mpirun -n N rapt train shares the parts of every batch (--parts) among N processes, for the same\n"
    "weights; --resume may have another N.\n"
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
    "  rapt train --data sentences.tsv --tokens subwords --vocabulary 4000 --skip-long \\\n"
    "    --out runs/sentences\n"
    "  rapt train --resume --out runs/mine\n";

using TrainSettings = std::map<std::string, std::string>;

struct TrainArguments {
  std::string task, data, valid, test, out, model, config, tokens, source_tokens, target_tokens, longest, threads;
  std::string compare;
  bool resume = false;
  bool json = false;
};

std::map<std::string, std::string> data_options(const TrainArguments& a) {
  std::map<std::string, std::string> options;
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) options[name] = text;
  };
  // Absolute, so that a run finds its files wherever it is resumed from.
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

bool holds_a_run(const std::string& directory) {
  return std::filesystem::exists(std::filesystem::path(directory) / "config.json");
}

std::string task_of(const TrainArguments& a) {
  if (a.task == "pairs") throw Error("train: pairs: expected its file as --data FILE, got the task alone");
  if (!a.task.empty()) return a.task;
  const std::string task = a.config.empty() ? "" : tasks::task_of_settings(a.config);
  return task.empty() || !a.data.empty() ? "pairs" : task;
}

std::unique_ptr<tasks::Experiment> new_run(const TrainArguments& a, TrainSettings settings) {
  if (a.task.empty() && a.data.empty() && (a.config.empty() || tasks::task_of_settings(a.config).empty())) {
    if (a.resume)
      throw Error("train: --resume: expected a run in " + a.out +
                  ", or a TASK or --data FILE to start one, got neither");
    throw Error("train: expected a TASK or --data FILE, got neither; `rapt list` names the tasks");
  }
  settings.merge(data_options(a));
  if (holds_a_run(a.out))
    throw Error("train: --out: expected a new directory, or --resume to continue the run, got " + a.out +
                ", which holds a run already");
  return tasks::start_experiment(task_of(a), {a.config, std::move(settings)});
}

// The command that began a run resumes it, and so does a shorter one: what is given must agree with the run.
std::unique_ptr<tasks::Experiment> old_run(const TrainArguments& a, TrainSettings settings) {
  settings.merge(data_options(a));
  if (!a.task.empty() || !a.data.empty() || !a.config.empty()) {
    const std::string has = tasks::task_of_run(a.out), asked = task_of(a);
    if (has != asked)
      throw Error("train: --resume: expected the task '" + has + "' of " + a.out + ", got '" + asked +
                  "'; a run keeps its settings");
  }
  return tasks::open_experiment(a.out, {a.config, std::move(settings)});
}

// With --resume, a command starts the run if there is none: batch queues repeat it unchanged.
std::unique_ptr<tasks::Experiment> open_run(const TrainArguments& a, const TrainSettings& settings) {
  return a.resume && holds_a_run(a.out) ? old_run(a, settings) : new_run(a, settings);
}

int threads_of(const TrainArguments& a) {
  return a.threads.empty() ? default_threads() : parse_threads("train: --threads", a.threads);
}

training::Observer observer(const training::TrainOptions& options, const std::string& unit, Progress& bar, bool print,
                            std::int64_t batches) {
  training::Observer o;
  o.stop = Interrupt::asked;
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

// Printed at the end of a run; the scores on held-out data go into the comparison's table.
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

// The library's message does not name the option, and --attention takes two names that are no mechanisms.
std::string about_attention(std::string text, const TrainSettings& settings) {
  const auto cross = settings.find("cross_attention");
  if (cross != settings.end() && text.ends_with("got '" + cross->second + "'"))
    return "train: --cross-attention: " + text;
  if (const std::size_t got = text.rfind(", got "); got != std::string::npos) text.insert(got, ", argmax, none");
  return "train: --attention: " + text;
}

// Messages of the library name settings; these become options: "setting max_length: …" → "train: --max-length: …".
std::string in_train_options(std::string_view message, const TrainArguments& a, const TrainSettings& settings) {
  const auto after = [&](std::string_view prefix) { return std::string(message.substr(prefix.size())); };
  if (message.starts_with("normalizer: ")) return "train: --normalize: " + after("normalizer: ");
  if (message.starts_with("mechanism: ")) return about_attention(after("mechanism: "), settings);
  if (message.find(" (--longest), got ") != std::string_view::npos && !message.ends_with("longer"))
    return std::string(message) + "; --skip-long leaves such lines out";
  const std::size_t end = message.find(": ");
  if (!message.starts_with("setting ") || end == std::string_view::npos) return std::string(message);
  std::string name(message.substr(8, end - 8));
  if (name == "train") name = "data";
  // One option sets both.
  if ((name == "source_tokens" && a.source_tokens.empty()) || (name == "target_tokens" && a.target_tokens.empty()))
    name = "tokens";
  std::replace(name.begin(), name.end(), '_', '-');
  return "train: --" + name + std::string(message.substr(end));
}

std::shared_ptr<training::RunLock> lock_run(const std::string& directory) {
  try {
    return training::RunLock::acquire(directory);
  } catch (const Error& error) {
    throw Error(std::string("train: --out: ") + error.what());
  }
}

// Ends an interrupted command; everything is saved.
[[noreturn]] void stop(const TrainArguments& a, const std::string& where, const std::string& next) {
  std::cout << "Stopped " << where << "; everything is saved. ";
  if (a.compare.empty()) std::cout << "To resume:\n  " << next << std::endl;
  else std::cout << "To resume, give the same command with --resume." << std::endl;
  throw ExitStatus{kInterrupted};
}

Trained train(const TrainArguments& a, const TrainSettings& settings) {
  const int threads = threads_of(a);
  // With --resume, a command starts the run if there is none: batch queues repeat it unchanged.
  const training::Processes processes(mpi::world());
  bool goes_on = a.resume && holds_a_run(a.out);
  processes.share(&goes_on, sizeof goes_on);
  // Process 0 writes the files.
  std::shared_ptr<training::RunLock> lock;
  if (goes_on && processes.writes()) lock = lock_run(a.out);
  const std::unique_ptr<tasks::Experiment> run = goes_on ? old_run(a, settings) : new_run(a, settings);
  const std::shared_ptr<training::Objective> objective = run->objective();
  const training::TrainOptions& options = run->training();
  // No file is written before every process has found that the run can start.
  processes.meet();
  training::Trainer trainer(objective, options, a.out, threads, processes);
  if (goes_on) {
    bool has_state = std::filesystem::exists(std::filesystem::path(a.out) / "state.safetensors");
    processes.share(&has_state, sizeof has_state);
    if (has_state) trainer.resume();
  } else if (processes.writes()) {
    std::error_code error;
    std::filesystem::create_directories(a.out, error);
    if (error) throw Error("train: --out: cannot make " + a.out + ": " + error.message());
    lock = lock_run(a.out);
    if (holds_a_run(a.out))
      throw Error("train: --out: expected a new directory, got " + a.out + ", where another process just began a run");
  }
  if (processes.writes()) run->write_config(a.out);
  const std::int64_t per_epoch = objective->batches();
  const std::int64_t parameters = objective->parameters().count();
  if (!a.json)
    std::cout << run->about_model() << "; " << counted(parameters, "parameter") << "\n"
              << run->about_data() << "; " << counted(per_epoch, "step") << " an epoch, " << processes.text()
              << counted(threads, "thread") << "\n";
  Progress bar("training", options.epochs * per_epoch);
  const auto end = trainer.run(observer(options, std::string(objective->unit()), bar, !a.json, per_epoch));
  bar.clear();
  const training::Progress& progress = trainer.progress();
  if (end == training::Trainer::End::stopped)
    stop(a, "after " + counted(progress.epoch, "epoch") + " and " + counted(progress.batch, "step"),
         "rapt train --resume --out " + a.out);
  if (progress.epoch < options.epochs && !a.json)
    std::cout << "No better score for " << counted(options.patience, "epoch")
              << ": --patience ended the run after epoch " << progress.epoch << " of " << options.epochs << "\n";
  Trained result{{{"run", a.out},
                  {"epochs", progress.epoch},
                  {"best_epoch", progress.best_epoch},
                  {"parameters", parameters},
                  {"seconds", progress.seconds}},
                 {},
                 next_command(run->look(), a.out)};
  const char* held_out = "test";
  auto scores = run->score(tasks::Split::test, trainer.values().data(), threads, Interrupt::asked);
  if (!scores) {
    held_out = "valid";
    scores = run->score(tasks::Split::valid, trainer.values().data(), threads, Interrupt::asked);
  }
  if (!scores) return result;
  if (Interrupt::asked()) stop(a, "after the last epoch, before the test", "rapt evaluate " + a.out);
  result.json["held_out"] = held_out;
  result.json.update(scores_json(*scores));
  result.scores = scores->list;
  if (!a.json)
    std::cout << "Best weights (epoch " << progress.best_epoch << "), held-out data: " << scores_line(*scores) << "\n";
  return result;
}

// From "attention=none,dot": the setting and its values.
std::pair<std::string, std::vector<std::string>> compared_values(const std::string& text) {
  constexpr const char* kTakes = "NAME=VALUE,VALUE,… without empty values";
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse("train: --compare", text, kTakes);
  std::vector<std::string> values;
  for (std::size_t begin = equals + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) refuse("train: --compare", text, kTakes);
    values.push_back(text.substr(begin, end - begin));
    if (std::count(values.begin(), values.end(), values.back()) > 1)
      throw Error("train: --compare: expected each value once, got '" + values.back() + "' twice");
    begin = end + 1;
  }
  if (values.empty()) refuse("train: --compare", text, kTakes);
  return {text.substr(0, equals), std::move(values)};
}

// One run of a comparison.
struct ComparedRun {
  std::string value;
  TrainArguments arguments;
  TrainSettings settings;
};

// One run per value of a setting, each in a directory below --out, and a table at the end.
Json compare(const TrainArguments& a, const TrainSettings& settings) {
  const auto [name, values] = compared_values(a.compare);
  std::string key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  std::vector<ComparedRun> runs;
  for (const std::string& value : values) {
    ComparedRun& run = runs.emplace_back(ComparedRun{value, a, settings});
    run.arguments.out = (std::filesystem::path(a.out) / value).string();
    if (key == "model") run.arguments.model = value;
    else run.settings[key] = value;
  }
  // The first run may take hours: check now that the last one can start.
  checked_by_process_0([&] {
    for (const ComparedRun& run : runs) {
      check_output_directory("train: --out", run.arguments.out);
      open_run(run.arguments, run.settings)->objective();
    }
  });
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table{{name, "parameters", "best epoch"}};
  for (const auto& [value, arguments, own] : runs) {
    if (!a.json) std::cout << "== " << name << " " << value << "\n";
    Trained trained = train(arguments, own);
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

void train_as_asked(const TrainArguments& a, const TrainSettings& settings) {
  if (a.out.empty()) throw Error("train: --out: expected the directory of the run, got none");
  checked_by_process_0([&] { check_output_directory("train: --out", a.out); });
  threads_of(a);
  if (!a.compare.empty()) {
    const Json rows = compare(a, settings);
    if (a.json) std::cout << rows.dump(2) << std::endl;
    return;
  }
  const Trained trained = train(a, settings);
  if (a.json) std::cout << trained.json.dump(2) << std::endl;
  else std::cout << "Try it:  " << trained.next_command << std::endl;
}

void run_train(const TrainArguments& a, const TrainSettings& settings) {
  const Interrupt interrupt;
  try {
    train_as_asked(a, settings);
  } catch (const training::NotFinite&) {
    throw;
  } catch (const Error& error) {
    throw Error(in_train_options(error.what(), a, settings));
  }
}

}  // namespace

void add_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb =
      app.add_subcommand("train", "Train a model: sequences from sequences, classes of images, tasks on every pixel");
  verb->footer(kTrainFooter);
  verb->add_option("TASK", arguments->task, "A task of rapt list")->type_name("");
  const auto option = [&](const char* name, std::string& to, const char* type, const std::string& help) {
    return verb->add_option(name, to, help)->type_name(type)->check(value_given());
  };
  const tasks::DataConfig usual;
  const std::string tokens(tasks::name_of(usual.source_units));
  option("--data", arguments->data, "FILE|DIR",
         "Your own data: lines of source TAB target; or the directory of cifar10, cifar100 or mnist");
  option("--valid", arguments->valid, "FILE", "Lines to validate on [5 % of --data]");
  option("--test", arguments->test, "FILE", "Lines to test on at the end [5 % of --data]");
  option("--tokens", arguments->tokens, "NAME",
         "What a token of a line is: characters, words or subwords [" + tokens + "]");
  option("--source-tokens", arguments->source_tokens, "NAME", "The same for sources alone [--tokens]");
  option("--target-tokens", arguments->target_tokens, "NAME", "The same for targets alone [--tokens]");
  option("--longest", arguments->longest, "N",
         "Most tokens on each side of a line [" + std::to_string(usual.longest) + "]");
  option("--out", arguments->out, "RUN", "The directory of the run");
  option("--model", arguments->model, "NAME",
         "Kind of model: seq2seq or transformer [" + std::string(tasks::name_of(models::ModelConfig{}.kind)) +
             "]; of images attention or cnn [" + std::string(tasks::name_of(models::ImageModelConfig{}.kind)) + "]");
  option("--config", arguments->config, "FILE", "A JSON file of settings; options override it");
  option("--compare", arguments->compare, "NAME=VALUE,VALUE...", "A run for each value of a setting, and a table");
  verb->add_flag("--resume", arguments->resume, "Continue the run in --out; start it where there is none yet");
  option("--threads", arguments->threads, "N", "Threads; the result does not depend on them [all processors]");
  verb->add_flag("--json", arguments->json, "Print the result as JSON");
  const SettingOptions settings(*verb);
  verb->callback([arguments, settings] { run_train(*arguments, settings.given()); });
}

}  // namespace rapt::cli
