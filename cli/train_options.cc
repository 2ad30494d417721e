#include "cli/train_options.h"

#include "cli/options.h"
#include "tasks/fields.h"
#include "tasks/image_fields.h"
#include "tasks/scene_fields.h"
#include "tasks/sequence_run.h"

namespace rapt::cli {
namespace {

// Adds an option for every field that does not have one yet: models share the names of some.
class Adder {
 public:
  Adder(CLI::App& verb, std::map<std::string, std::string>& texts, std::string group)
      : verb_(verb), texts_(texts), group_(std::move(group)) {}

  template <class T>
  void operator()(const char* name, const T& value, const char* about) {
    add(name, about + default_of(value), std::is_same_v<T, bool>);
  }
  template <class T>
  void operator()(const char* name, const T& value, double, double, const char* about) {
    add(name, about + default_of(value), false);
  }

 private:
  // " [64]": the usual value, as far as there is one.
  template <class T>
  static std::string default_of(const T& value) {
    std::string text;
    if constexpr (std::is_enum_v<T>) text = tasks::name_of(value);
    else if constexpr (std::is_same_v<T, bool>) text = value ? "true" : "";
    else if constexpr (std::is_same_v<T, std::string>) text = value;
    else text = format_as(static_cast<double>(value), "%.10g");
    return text.empty() ? "" : " [" + text + "]";
  }

  void add(std::string name, const std::string& about, bool flag) {
    if (texts_.contains(name)) return;
    std::string& text = texts_[name];
    for (char& c : name)
      if (c == '_') c = '-';
    CLI::Option* option = flag ? verb_.add_flag("--" + name, text, about) : verb_.add_option("--" + name, text, about);
    option->group(group_);
    if (!flag) option->check(value_given());
  }

  CLI::App& verb_;
  std::map<std::string, std::string>& texts_;
  std::string group_;
};

template <class S>
void add_fields(CLI::App& verb, std::map<std::string, std::string>& texts, const char* group) {
  Adder adder(verb, texts, group);
  S settings{};
  tasks::fields(adder, settings);
}

}  // namespace

SettingOptions::SettingOptions(CLI::App& verb) : texts_(std::make_shared<Texts>()), verb_(&verb) {
  add_fields<models::Seq2seqConfig>(verb, texts_->values, "Model");
  add_fields<models::TransformerConfig>(verb, texts_->values, "Model");
  add_fields<models::AttentionClassifierConfig>(verb, texts_->values, "Model");
  add_fields<models::CnnConfig>(verb, texts_->values, "Model");
  add_fields<training::TrainOptions>(verb, texts_->values, "Training");
  add_fields<tasks::SymbolOptions>(verb, texts_->values, "Symbols of --data");
  add_fields<tasks::ReverseOptions>(verb, texts_->values, "Generated tasks");
  add_fields<models::MultitaskConfig>(verb, texts_->values, "Scenes");
  add_fields<tasks::SceneDataConfig>(verb, texts_->values, "Scenes");
  add_fields<tasks::Augmentation>(verb, texts_->values, "Images");
}

std::map<std::string, std::string> SettingOptions::given() const {
  std::map<std::string, std::string> result;
  for (const auto& [name, text] : texts_->values)
    if (!text.empty()) result[name] = text;
  return result;
}

}  // namespace rapt::cli
