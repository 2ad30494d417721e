#include "cli/train_options.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "cli/options.h"
#include "tasks/fields.h"
#include "tasks/image_fields.h"
#include "tasks/image_run.h"
#include "tasks/scene_fields.h"
#include "tasks/sequence_run.h"

namespace rapt::cli {
namespace {

// A kind of run with its own defaults.
struct RunKind {
  std::string family, model, task;
  bool operator==(const RunKind&) const = default;
  bool operator<(const RunKind& other) const {
    return std::tie(family, model, task) < std::tie(other.family, other.model, other.task);
  }

  std::string task_and_model() const { return task + " with " + model; }
};

template <class T>
std::string value_text(const T& value) {
  if constexpr (std::is_enum_v<T>) return std::string(tasks::name_of(value));
  else if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_same_v<T, std::string>) return value;
  else return format_as(static_cast<double>(value), "%.10g");
}

// Each setting's default, for every kind of run that has it.
class Defaults {
 public:
  Defaults() {
    for (const char* task : {"reverse", "case", "pairs"})
      for (const models::Kind model : {models::Kind::seq2seq, models::Kind::transformer}) {
        tasks::SequenceRunConfig run = tasks::task_defaults(task);
        kind_ = {"sequences", std::string(tasks::name_of(model)),
                 run.data.source == tasks::Source::pairs ? "--data" : task};
        if (model == models::Kind::seq2seq) tasks::fields(*this, run.model.seq2seq);
        else tasks::fields(*this, run.model.transformer);
        tasks::fields(*this, run.training);
        if (run.data.source == tasks::Source::reverse) tasks::fields(*this, run.data.reverse);
        else if (run.data.source == tasks::Source::cases) tasks::fields(*this, run.data.cases);
        else tasks::fields(*this, run.data.symbols);
      }
    for (const char* task : {"digits", "shapes", "cifar10", "cifar100", "mnist"})
      for (const models::ImageModelKind model : {models::ImageModelKind::attention, models::ImageModelKind::cnn}) {
        tasks::ImageRunConfig run = tasks::image_defaults(task, model);
        kind_ = {"images", std::string(tasks::name_of(model)), task};
        if (model == models::ImageModelKind::cnn) tasks::fields(*this, run.model.cnn);
        else tasks::fields(*this, run.model.attention);
        tasks::fields(*this, run.training);
        tasks::fields(*this, run.data.augmentation);
        if (run.data.source == tasks::ImageSource::shapes) tasks::fields(*this, run.data.shapes);
      }
    kind_ = {"scenes", "", "scenes"};
    tasks::SceneRunConfig scenes = tasks::scene_defaults();
    tasks::fields(*this, scenes.model);
    tasks::fields(*this, scenes.training);
    tasks::fields(*this, scenes.data);
  }

  // Called by tasks::fields().
  template <class T>
  void operator()(const std::string& name, const T& value, const char*) {
    note(name, value_text(value));
  }
  template <class T>
  void operator()(const std::string& name, const T& value, double, double, const char*) {
    note(name, value_text(value));
  }

  // "30; images, digits: 80": the default of most kinds of run, then the exceptions.
  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return "";
    std::vector<std::pair<std::string, std::set<RunKind>>> values = found->second;
    std::stable_sort(values.begin(), values.end(),
                     [](const auto& one, const auto& other) { return one.second.size() > other.second.size(); });
    std::set<RunKind> all;
    for (const auto& [value, kinds] : values) all.insert(kinds.begin(), kinds.end());
    if (values.size() == 1 && (values[0].first == "false" || values[0].first.empty())) return "";
    std::string text = values[0].first;
    for (std::size_t n = 1; n < values.size(); ++n)
      text += "; " + kinds_text(values[n].second, all) + ": " + values[n].first;
    return text;
  }

 private:
  void note(const std::string& name, const std::string& text) {
    auto& values = values_[name];
    auto found = std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == text; });
    if (found == values.end()) found = values.insert(found, {text, {}});
    found->second.insert(kind_);
  }

  // Kept short: a family, a model or a task stands for all kinds of run that share the setting.
  static std::string kinds_text(std::set<RunKind> kinds, const std::set<RunKind>& all) {
    std::string text;
    const auto take = [&](auto part) {
      const std::vector<RunKind> left(kinds.begin(), kinds.end());
      for (const RunKind& kind : left) {
        const auto is_of_it = [&](const RunKind& other) { return std::invoke(part, other) == std::invoke(part, kind); };
        const auto here = std::count_if(kinds.begin(), kinds.end(), is_of_it);
        if (here == 0 || here != std::count_if(all.begin(), all.end(), is_of_it)) continue;
        text += (text.empty() ? "" : ", ") + std::invoke(part, kind);
        std::erase_if(kinds, is_of_it);
      }
    };
    take(&RunKind::family);
    take(&RunKind::model);
    take(&RunKind::task);
    take(&RunKind::task_and_model);
    return text;
  }

  RunKind kind_;
  std::map<std::string, std::vector<std::pair<std::string, std::set<RunKind>>>> values_;
};

// Adds an option for every new field: models share some names.
class Adder {
 public:
  Adder(CLI::App& verb, std::map<std::string, std::string>& texts, const Defaults& defaults, std::string group)
      : verb_(verb), texts_(texts), defaults_(defaults), group_(std::move(group)) {}

  template <class T>
  void operator()(const char* name, const T&, const char* about) {
    add<T>(name, about);
  }
  template <class T>
  void operator()(const char* name, const T&, double, double, const char* about) {
    add<T>(name, about);
  }

 private:
  template <class T>
  static const char* type_of(std::string_view name) {
    if (name.find("attention_") != std::string_view::npos) return "EXPR";
    return std::is_integral_v<T> ? "N" : std::is_floating_point_v<T> ? "X" : "NAME";
  }

  template <class T>
  void add(std::string name, const char* about) {
    if (texts_.contains(name)) return;
    std::string& text = texts_[name];
    const char* type = type_of<T>(name);
    const std::string usual = defaults_.text(name);
    const std::string help = about + (usual.empty() ? "" : " [" + usual + "]");
    std::replace(name.begin(), name.end(), '_', '-');
    if constexpr (std::is_same_v<T, bool>) verb_.add_flag("--" + name, text, help)->group(group_);
    else verb_.add_option("--" + name, text, help)->type_name(type)->group(group_)->check(value_given());
  }

  CLI::App& verb_;
  std::map<std::string, std::string>& texts_;
  const Defaults& defaults_;
  std::string group_;
};

}  // namespace

SettingOptions::SettingOptions(CLI::App& verb) : texts_(std::make_shared<Texts>()), verb_(&verb) {
  const Defaults defaults;
  const auto add = [&](auto settings, const char* group) {
    Adder adder(verb, texts_->values, defaults, group);
    tasks::fields(adder, settings);
  };
  add(models::Seq2seqConfig{}, "Model");
  add(models::TransformerConfig{}, "Model");
  add(models::AttentionClassifierConfig{}, "Model");
  add(models::CnnConfig{}, "Model");
  add(training::TrainOptions{}, "Training");
  add(tasks::SymbolOptions{}, "Symbols of --data");
  add(tasks::ReverseOptions{}, "Generated tasks");
  add(models::MultitaskConfig{}, "Scenes");
  add(tasks::SceneDataConfig{}, "Scenes");
  add(tasks::Augmentation{}, "Images");
}

std::map<std::string, std::string> SettingOptions::given() const {
  std::map<std::string, std::string> result;
  for (const auto& [name, text] : texts_->values)
    if (!text.empty()) result[name] = text;
  return result;
}

}  // namespace rapt::cli
