#include <algorithm>
#include <array>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/verbs.h"
#include "formulas/builtin.h"
#include "mechanisms/describe.h"
#include "rapt/device.h"
#include "rapt/normalizer.h"
#include "rapt/registry.h"
#include "tasks/experiment.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ListArguments {
  bool formulas = false;
  bool json = false;
};

struct Item {
  const char* name;
  const char* formula;
  const char* option;
};

constexpr std::array kMasks{
    Item{"causal top_left", "j ≤ i, i = first_query + the query's row", "--causal top_left"},
    Item{"causal bottom_right", "the same with first_query = keys in use − Sq", "--causal bottom_right"},
    Item{"window", "i − L ≤ j ≤ i + R; -1: no limit", "--window L,R"},
    Item{"key_lengths", "j < length of the batch", "--key-lengths N,…"},
    Item{"packed", "query and key of the same sequence", "--query-starts N,… --key-starts N,…"},
    Item{"dense", "mask[i,j]; true = attend", "--mask M.npy"},
};

// Positions that any call of attend can have.
constexpr std::array kEncodings{
    Item{"rotary", "queries and keys rotated by the angles position · base^(−2n/dims)", "--rotary DIMS[,BASE]"},
};

// Mechanisms whose scores depend on positions.
constexpr std::array<std::string_view, 7> kRelative{"alibi",     "t5",       "shaw",      "transformer_xl",
                                                    "quadratic", "gaussian", "learned_2d"};

// Encodings that a Transformer may add to its tokens.
constexpr std::array<std::pair<const char*, const char*>, 4> kPositions{{
    {"one_hot", "1 at the index of the step"},
    {"sinusoidal", "sin ω₁t, cos ω₁t, sin ω₂t, …; ω_k = 10000^(−2k/d)"},
    {"learned", "a learned vector for each step"},
    {"rotary", "queries and keys rotated by angles ω_k t"},
}};

constexpr const char* kListFooter =
    "Shapes: H heads (H? = per head, or shared without it), Dq Dk Dv dimensions of queries, keys and\n"
    "values, A free, R C rows and columns of the grid; for transformer_xl's table, R is the number of\n"
    "rows needed to reach all positions.\n"
    "\n"
    "Examples:\n"
    "  rapt list\n"
    "  rapt list --json\n"
    "  rapt list --formulas\n";

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

Json parameters_json(std::span<const ParameterSpec> specs) {
  Json list = Json::array();
  for (const ParameterSpec& spec : specs)
    list.push_back(
        {{"name", spec.name}, {"shape", shape_text(spec)}, {"required", spec.required}, {"about", role_text(spec)}});
  return list;
}

Json parameters_json(const MechanismInfo& info) {
  Json list = parameters_json(info.parameters());
  if (info.grid())
    list.push_back({{"name", "grid"}, {"shape", "rows,cols"}, {"required", true}, {"about", "how the positions lie"}});
  return list;
}

Json settings_json(const MechanismInfo& info) {
  Json list = Json::array();
  for (const SettingSpec& spec : info.settings())
    list.push_back({{"name", spec.name}, {"default", spec.value}, {"low", spec.low}, {"high", spec.high}});
  return list;
}

bool is_relative(const MechanismInfo& info) {
  return std::find(kRelative.begin(), kRelative.end(), info.name()) != kRelative.end();
}

std::string option_of(const NormalizerInfo& info) { return "--normalize " + std::string(info.name); }

Json normalizers_json() {
  Json list = Json::array();
  for (const NormalizerInfo& info : all_normalizers())
    list.push_back({{"name", info.name},
                    {"formula", info.formula},
                    {"option", option_of(info)},
                    {"parameters", parameters_json(info.parameters)}});
  return list;
}

Json items_json(std::span<const Item> items) {
  Json list = Json::array();
  for (const Item& item : items)
    list.push_back(
        {{"name", item.name}, {"formula", item.formula}, {"option", item.option}, {"parameters", Json::array()}});
  return list;
}

struct DeviceItem {
  std::string name, about, option;
};

// Names for `--device`.
std::vector<DeviceItem> device_items() {
  std::vector<DeviceItem> items{{"cpu", "every call", "--device cpu"}};
  const int count = device_count(Device::Kind::cuda);
  for (int n = 0; n < count; ++n)
    items.push_back({to_string(Device{Device::Kind::cuda, n}),
                     describe({Device::Kind::cuda, n}) + ": every mechanism, in f32, bf16 and f16", "--device cuda"});
  return items;
}

Json devices_json() {
  Json list = Json::array();
  for (const DeviceItem& item : device_items())
    list.push_back({{"name", item.name}, {"about", item.about}, {"option", item.option}});
  return list;
}

Json all_json() {
  Json all;
  all["mechanisms"] = Json::array();
  all["normalisers"] = normalizers_json();
  all["masks"] = items_json(kMasks);
  all["encodings"] = items_json(kEncodings);
  for (const auto& [name, formula] : kPositions)
    all["encodings"].push_back({{"name", name}, {"formula", formula}, {"option", "--positions " + std::string(name)}});
  all["devices"] = devices_json();
  all["tasks"] = Json::array();
  for (const tasks::Family& family : tasks::all_families())
    for (const tasks::TaskInfo& task : family.tasks)
      all["tasks"].push_back({{"name", task.name}, {"about", task.about}});
  for (const MechanismInfo* info : all_mechanisms()) {
    const Json entry{{"name", info->name()},
                     {"formula", info->formula()},
                     {"parameters", parameters_json(*info)},
                     {"settings", settings_json(*info)}};
    all["mechanisms"].push_back(entry);
    if (is_relative(*info)) all["encodings"].push_back(entry);
  }
  return all;
}

using Table = std::vector<std::vector<std::string>>;

std::string parameters_text(std::span<const ParameterSpec> specs) {
  std::string text;
  for (const ParameterSpec& spec : specs)
    text += (text.empty() ? "" : ", ") + std::string(spec.name) + (spec.required ? "" : "*") + " " + shape_text(spec);
  return text;
}

void print_mechanisms() {
  Table rows{{"mechanism", "score", "parameters (* may be left out)"}};
  for (const MechanismInfo* info : all_mechanisms()) {
    std::string takes = parameters_text(info->parameters());
    const auto add = [&takes](const std::string& text) { takes += (takes.empty() ? "" : ", ") + text; };
    if (info->grid()) add("grid=rows,cols");
    for (const SettingSpec& spec : info->settings()) add(std::string(spec.name) + "=" + number_text(spec.value));
    rows.push_back({std::string(info->name()), std::string(info->formula()), takes});
  }
  std::cout << format_table(rows) << "\n";
}

void print_parameters() {
  Table rows{{"parameter", "of", "what it is"}};
  for (const MechanismInfo* info : all_mechanisms())
    for (const ParameterSpec& spec : info->parameters())
      rows.push_back({std::string(spec.name) + " " + shape_text(spec), std::string(info->name()), role_text(spec)});
  std::cout << format_table(rows) << "\n";
}

void print_normalizers() {
  Table rows{{"normaliser", "weight", "option", "parameters (* may be left out)"}};
  for (const NormalizerInfo& info : all_normalizers())
    rows.push_back(
        {std::string(info.name), std::string(info.formula), option_of(info), parameters_text(info.parameters)});
  std::cout << format_table(rows) << "\n";
}

void print_items(const char* title, std::span<const Item> items) {
  Table rows{{title, "formula", "option"}};
  for (const Item& item : items) rows.push_back({item.name, item.formula, item.option});
  std::cout << format_table(rows) << "\n";
}

void print_tables() {
  print_mechanisms();
  print_parameters();
  print_normalizers();
  print_items("mask", kMasks);
  std::string names;
  for (const MechanismInfo* info : all_mechanisms())
    if (is_relative(*info)) names += (names.empty() ? "" : ", ") + std::string(info->name());
  std::cout << "encodings, as mechanisms: " << names << "\n\n";
  print_items("encoding", kEncodings);
  Table positions{{"encoding of a Transformer", "formula", "option"}};
  for (const auto& [name, formula] : kPositions)
    positions.push_back({name, formula, "--positions " + std::string(name)});
  std::cout << format_table(positions) << "\n";
  Table devices{{"device", "what it computes", "option"}};
  for (const DeviceItem& item : device_items()) devices.push_back({item.name, item.about, item.option});
  std::cout << format_table(devices) << "\n";
  Table rows{{"task", "what it does"}};
  for (const tasks::Family& family : tasks::all_families())
    for (const tasks::TaskInfo& task : family.tasks) rows.push_back({std::string(task.name), std::string(task.about)});
  std::cout << format_table(rows);
}

void print_formulas(bool as_json) {
  Json list = Json::array();
  Table rows{{"mechanism", "--formula", "--pair"}};
  for (const formulas::BuiltinFormula& builtin : formulas::builtin_formulas()) {
    const std::string score(builtin.score), pair(builtin.pair), why(builtin.why);
    if (as_json && builtin.is_formula())
      list.push_back({{"name", builtin.mechanism}, {"formula", score}, {"pair", pair}});
    else if (as_json) list.push_back({{"name", builtin.mechanism}, {"formula", Json()}, {"why", why}});
    else rows.push_back({std::string(builtin.mechanism), builtin.is_formula() ? score : "none: " + why, pair});
  }
  if (as_json) std::cout << Json{{"formulas", list}}.dump(2) << "\n";
  else std::cout << format_table(rows);
}

void add_list_options(CLI::App& verb, ListArguments& a) {
  verb.add_flag("--formulas", a.formulas, "The mechanisms as formulas, for --formula and --pair of attend");
  verb.add_flag("--json", a.json, "Print JSON");
}

}  // namespace

void add_list(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("list", "Mechanisms, normalisers, masks, encodings, devices, tasks");
  auto arguments = std::make_shared<ListArguments>();
  add_list_options(*verb, *arguments);
  verb->footer(kListFooter);
  verb->callback([arguments] {
    if (arguments->formulas) print_formulas(arguments->json);
    else if (arguments->json) std::cout << all_json().dump(2) << "\n";
    else print_tables();
  });
}

}  // namespace rapt::cli
