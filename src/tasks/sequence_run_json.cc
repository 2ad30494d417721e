#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tasks/config_file.h"
#include "tasks/experiment.h"
#include "tasks/sequence_run.h"
#include "tensor/checksum.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {

template <>
struct Names<Source> {
  static constexpr std::array list{std::pair<std::string_view, Source>{"reverse", Source::reverse},
                                   std::pair<std::string_view, Source>{"case", Source::cases},
                                   std::pair<std::string_view, Source>{"pairs", Source::pairs}};
};

template <class V>
void fields(V& v, DataConfig& d) {
  if (d.source == Source::reverse) fields(v, d.reverse);
  if (d.source == Source::cases) fields(v, d.cases);
  if (d.source != Source::pairs) return;
  v("train", d.train, "lines of source TAB target");
  v("valid", d.valid, "the same, to validate on");
  v("test", d.test, "the same, to test on");
  v("source_tokens", d.source_units, "characters, words or subwords");
  v("target_tokens", d.target_units, "characters, words or subwords");
  v("longest", d.longest, 1, 1e6, "most tokens of a side");
  fields(v, d.symbols);
}

template <class V>
void fields(V& v, models::ModelConfig& m) {
  if (m.kind == models::Kind::transformer) fields(v, m.transformer);
  else fields(v, m.seq2seq);
}

template <class V>
void fields(V& v, models::Sizes& s) {
  v("source_symbols", s.source_symbols, 1, 1e9, "");
  v("target_symbols", s.target_symbols, 1, 1e9, "");
  v("max_length", s.max_length, 1, 1e9, "");
  v("max_target", s.max_target, 1, 1e9, "");
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::vector<std::string> symbols(const std::string& file, json& whole, const char* name) {
  const auto found = whole.find(name);
  if (found == whole.end() || !found->is_array())
    throw Error(file + ": expected a list '" + name + "' of symbols, got none");
  try {
    auto list = found->get<std::vector<std::string>>();
    whole.erase(found);
    return list;
  } catch (const json::exception&) {
    throw Error(file + ": " + name + ": expected a list of strings, got something else");
  }
}

std::string subwords_name(const std::string& side) { return side + "_subwords.model"; }

// The subword model of one side, a file of its own, which must be what config.json says.
LearnedSubwords read_subwords(const std::filesystem::path& directory, const std::string& side, json& sums,
                              const std::vector<std::string>& symbols) {
  const std::filesystem::path path = directory / subwords_name(side);
  const std::string expected = sums.is_object() ? sums.value(side, json("")).dump() : "\"\"";
  if (sums.is_object()) sums.erase(side);
  std::string bytes = read_file(path);
  const std::string got = json(checksum_text(std::as_bytes(std::span(bytes)))).dump();
  if (got != expected)
    throw Error(path.string() + " is damaged: expected the checksum " + expected + " of config.json, got " + got);
  std::unique_ptr<Subwords> model = subword_library().open(std::move(bytes));
  model->keep(symbols);
  return {std::move(model), symbols};
}

// One attention of a model: a mechanism by name, or a formula. Never both: one of them would be ignored.
struct AttentionChoice {
  std::string name;  // of the setting
  std::string& mechanism;
  layers::FormulaTexts& formula;
};

std::vector<AttentionChoice> attentions(models::ModelConfig& model) {
  models::TransformerConfig& t = model.transformer;
  return {{"attention", model.seq2seq.attention, model.seq2seq.formula},
          {"attention", t.attention, t.formula},
          {"cross_attention", t.cross_attention, t.cross_formula}};
}

constexpr std::array kFormulaParts{"_formula", "_pair", "_visible"};

// The later one counts: a mechanism replaces a formula, and a formula a mechanism. Called before settings are read;
// given(name): whether they include it as non-empty text.
template <class F>
void make_room(models::ModelConfig& model, F&& given) {
  for (const AttentionChoice& choice : attentions(model)) {
    const bool formula =
        std::ranges::any_of(kFormulaParts, [&](const char* part) { return given(choice.name + part); });
    if (given(choice.name)) choice.formula = {};
    else if (formula) choice.mechanism.clear();
  }
}

bool has_text(const json& model, const std::string& name) {
  const auto found = model.find(name);
  return found != model.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

void require_one_attention(const std::string& file, const json& model) {
  for (const std::string name : {"attention", "cross_attention"})
    for (const std::string part : kFormulaParts)
      if (has_text(model, name) && has_text(model, name + part))
        throw Error(file + ": model: " + name + ": expected no mechanism beside " + name + part +
                    ", which takes its place, got '" + model.at(name).get<std::string>() + "'");
}

}  // namespace

void apply_file(SequenceRunConfig& config, const std::filesystem::path& path) {
  json whole = parse_settings(path, name_of(config.data.source));
  const std::string file = path.string();
  const json model = take_section(file, whole, "model", false);
  require_one_attention(file, model);
  make_room(config.model, [&](const std::string& name) { return has_text(model, name); });
  read_model_section(file, model, config.model);
  read_section(file + ": training", take_section(file, whole, "training", false), config.training);
  read_section(file + ": data", take_section(file, whole, "data", false), config.data);
  require_nothing_left(file, whole, "the sections model, training and data");
}

void apply_options(SequenceRunConfig& config, std::map<std::string, std::string> options) {
  const bool subwords = options.contains("subwords");
  for (const std::string part : kFormulaParts)
    for (const auto& [mechanism, option] :
         {std::pair("attention", "--attention"), std::pair("cross_attention", "--cross-attention")})
      if (options.contains(mechanism) && options.contains(mechanism + part))
        throw Error("train: " + std::string(option) +
                    ": expected no mechanism beside a formula, which takes its place, got '" + options.at(mechanism) +
                    "'");
  make_room(config.model, [&](const std::string& name) {
    const auto found = options.find(name);
    return found != options.end() && !found->second.empty();
  });
  FieldSetter setter(options);
  setter("model", config.model.kind, "");
  fields(setter, config.model);
  fields(setter, config.training);
  fields(setter, config.data);
  require_no_option_left(
      options, std::string(name_of(config.model.kind)) + " models on task " + std::string(name_of(config.data.source)));
  if (subwords && config.data.source_units != Units::subwords && config.data.target_units != Units::subwords)
    throw Error("setting subwords: expected --tokens subwords with it, got " +
                std::string(name_of(config.data.source_units)));
}

void go_on(SequenceRunConfig& config, const std::string& run, const Settings& settings) {
  SequenceRunConfig asked = config;
  if (!settings.file.empty()) apply_file(asked, settings.file);
  apply_options(asked, settings.options);
  require_same_settings(run, run_sections(config, 0), run_sections(asked, 0));
  config.training = asked.training;
}

void write_config(const std::filesystem::path& directory, const SequenceRunConfig& config) {
  ordered_json whole = run_sections(config, config.data.source == Source::pairs ? config.data.train_hash : 0);
  whole["source_vocabulary"] = config.source_symbols;
  whole["target_vocabulary"] = config.target_symbols;
  if (config.data.source == Source::pairs && config.data.symbols.skip_long)
    whole["skipped_lines"] = config.data.skipped_lines;
  // Subword models are written before the file that names them.
  for (const auto& [side, subwords] : {std::pair("source", &config.data.source_subwords.model),
                                       std::pair("target", &config.data.target_subwords.model)}) {
    if (!*subwords) continue;
    const std::string& bytes = (*subwords)->bytes();
    write_file(directory / subwords_name(side), bytes);
    whole["subwords"][side] = checksum_text(std::as_bytes(std::span(bytes)));
  }
  write_run_config(directory, std::move(whole));
}

SequenceRunConfig read_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = run_config_path(directory);
  const std::string file = path.string();
  json whole = parse_run_config(path);
  SequenceRunConfig config;
  // Runs from before this setting continue without it.
  config.data.symbols.unknown_dropout = 0;
  if (const auto model = whole.find("model"); model != whole.end()) require_one_attention(file, *model);
  make_room(config.model, [&](const std::string& name) { return has_text(whole.value("model", json()), name); });
  read_run_sections(file, whole, config, config.data.train_hash);
  config.source_symbols = symbols(file, whole, "source_vocabulary");
  config.target_symbols = symbols(file, whole, "target_vocabulary");
  whole.erase("skipped_lines");
  json sums = take_section(file, whole, "subwords", false);
  if (config.data.source == Source::pairs && config.data.source_units == Units::subwords)
    config.data.source_subwords = read_subwords(directory, "source", sums, config.source_symbols);
  if (config.data.source == Source::pairs && config.data.target_units == Units::subwords)
    config.data.target_subwords = read_subwords(directory, "target", sums, config.target_symbols);
  require_nothing_left(file + ": subwords", sums, "which is not a side in subwords");
  require_nothing_left(file, whole, "which is not a part of a run");
  if (config.sizes.source_symbols != kFirstSymbol + static_cast<std::int64_t>(config.source_symbols.size()) ||
      config.sizes.target_symbols != kFirstSymbol + static_cast<std::int64_t>(config.target_symbols.size()))
    throw Error(file + ": expected vocabularies of the model's sizes, got others");
  return config;
}

}  // namespace rapt::inline v1::tasks
