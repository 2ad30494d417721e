#include <iostream>
#include <memory>

#include "attend/counted.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "solve/count_layer.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;
using Table = std::vector<std::vector<std::string>>;

constexpr const char* kCountFooter =
    "Give the sizes of one layer, or a file that describes a layer or a list of layers (docs/count.md).\n"
    "\n"
    "Examples:\n"
    "  rapt count --heads 9 --din 400 --dhid 400 --tokens 256\n"
    "  rapt count --heads 9 --din 400 --do 400 --grid 16,16 --encoding factorised\n"
    "  rapt count examples/count/six_layers.json --json";

struct CountArguments {
  std::string file;
  std::string heads, din, dhid, value_dim, dout, dp, tokens, grid, batch, encoding, dtype;
  bool json = false;
};

struct Model {
  std::string title;
  std::vector<solve::Layer> layers;
};

struct Totals {
  std::int64_t layers = 0, parameters = 0, multiply_adds = 0, exponentials = 0, naive_bytes = 0, fused_bytes = 0;
};

void set_size(const char* option, const std::string& text, std::int64_t& target) {
  if (text.empty()) return;
  const std::string argument = std::string("count: ") + option;
  target = parse_integers(argument, text, "an integer of 1 or more", 1).front();
  if (target < 1) refuse(argument, text, "an integer of 1 or more");
}

solve::Layer layer_from_options(const CountArguments& arguments) {
  solve::Layer layer;
  set_size("--heads", arguments.heads, layer.heads);
  set_size("--din", arguments.din, layer.input_dim);
  set_size("--dhid", arguments.dhid, layer.hidden_dim);
  set_size("--do", arguments.value_dim, layer.value_dim);
  set_size("--dout", arguments.dout, layer.output_dim);
  set_size("--dp", arguments.dp, layer.position_dim);
  set_size("--tokens", arguments.tokens, layer.tokens);
  set_size("--batch", arguments.batch, layer.batch);
  if (!arguments.grid.empty()) {
    const auto sizes = parse_integers("count: --grid", arguments.grid, "rows,columns", 2);
    if (sizes[0] < 1 || sizes[1] < 1) refuse("count: --grid", arguments.grid, "rows,columns of 1 or more");
    layer.grid = {sizes[0], sizes[1]};
  }
  if (!arguments.encoding.empty()) layer.encoding = solve::parse_encoding("count: --encoding", arguments.encoding);
  if (!arguments.dtype.empty()) layer.dtype = parse_dtype("count: --dtype", arguments.dtype);
  solve::complete(layer, "count: ");
  return layer;
}

// A layer, a list of layers, or {"layers": […]} whose other keys are defaults for every layer.
Model read_model(const std::string& file) {
  const nlohmann::json json = solve::read_json_file("count", file);
  const solve::JsonNode root("count", file, json);
  Model model;
  if (json.is_array()) {
    for (const solve::JsonNode& layer : root.items()) model.layers.push_back(solve::read_layer(layer));
    return model;
  }
  root.require_object();
  nlohmann::json common = json;
  if (const auto title = root.find("title")) model.title = title->text();
  common.erase("title");
  common.erase("layers");
  if (!root.has("layers")) {
    model.layers.push_back(solve::read_layer(solve::JsonNode("count", file, common)));
    return model;
  }
  for (const solve::JsonNode& layer : root.at("layers").items()) {
    layer.require_object();
    nlohmann::json merged = common;
    merged.merge_patch(layer.value());
    model.layers.push_back(solve::read_layer(layer.with_value(merged)));
  }
  return model;
}

Totals total_of(const std::vector<solve::Layer>& layers, const std::vector<solve::LayerCount>& counts) {
  Totals totals;
  for (std::size_t n = 0; n < layers.size(); ++n) {
    const auto add = [&](std::int64_t& total, std::int64_t value) {
      total = solve::checked_add(total, solve::checked_multiply(value, layers[n].repeat));
    };
    add(totals.layers, 1);
    add(totals.parameters, counts[n].parameters.value());
    add(totals.multiply_adds, counts[n].multiply_add_total);
    add(totals.exponentials, counts[n].exponentials.value());
    add(totals.naive_bytes, counts[n].naive_total);
    add(totals.fused_bytes, counts[n].fused_total);
  }
  return totals;
}

std::string bytes_text(std::int64_t bytes) {
  return std::to_string(bytes) + " (" + format_bytes(static_cast<double>(bytes)) + ")";
}

void add_stages(const std::vector<solve::Stage>& stages, Table& rows) {
  for (const solve::Stage& stage : stages)
    rows.push_back({stage.name, std::to_string(stage.quantity.value()),
                    stage.quantity.symbols() + " = " + stage.quantity.numbers()});
}

std::string layer_title(const solve::Layer& layer, std::size_t number) {
  std::string title = layer.name.empty() ? "layer " + std::to_string(number) : layer.name;
  if (layer.repeat > 1) title += ", " + std::to_string(layer.repeat) + " times";
  return title + ": " + name_of(layer.encoding) + " encoding, " + name_of(layer.dtype);
}

void print_layer(const solve::Layer& layer, const solve::LayerCount& counted) {
  std::cout << "\nparameters = " << counted.parameters.symbols() << "\n           = " << counted.parameters.numbers()
            << "\n           = " << counted.parameters.value() << "\n";
  Table parts;
  add_stages(counted.parameter_parts, parts);
  std::cout << format_table(parts, "  ");

  std::cout << "\nmultiply-adds\n";
  Table work;
  add_stages(counted.multiply_adds, work);
  work.push_back({"total", std::to_string(counted.multiply_add_total), ""});
  work.push_back({"softmax exponentials", std::to_string(counted.exponentials.value()),
                  counted.exponentials.symbols() + " = " + counted.exponentials.numbers()});
  add_stages(counted.as_written, work);
  std::cout << format_table(work, "  ");

  std::cout << "\nbytes\n";
  Table bytes;
  add_stages(counted.naive_bytes, bytes);
  add_stages({counted.fused_bytes.back()}, bytes);
  bytes.push_back({"naive, with the score matrix stored", bytes_text(counted.naive_total), ""});
  bytes.push_back({"fused, with the log-sums instead", bytes_text(counted.fused_total), ""});
  std::cout << format_table(bytes, "  ");

  std::cout << "\norder of growth, D_x = D_in (* = this layer)\n";
  Table growth;
  for (const solve::Growth& g : counted.growth)
    growth.push_back({std::string(g.encoding == layer.encoding ? "* " : "  ") + name_of(g.encoding), g.what, g.order,
                      g.terms.numbers() + " = " + std::to_string(g.terms.value())});
  std::cout << format_table(growth, "  ");
}

void print_model(const Model& model, const std::vector<solve::LayerCount>& counts, const Totals& totals) {
  if (!model.title.empty()) std::cout << model.title << "\n\n";
  for (std::size_t n = 0; n < counts.size(); ++n) {
    std::cout << (n ? "\n\n" : "") << layer_title(model.layers[n], n) << "\n";
    print_layer(model.layers[n], counts[n]);
  }
  if (totals.layers == 1) return;
  std::cout << "\ntotal of " << counted(totals.layers, "layer") << "\n"
            << format_table({{"parameters", std::to_string(totals.parameters)},
                             {"multiply-adds", std::to_string(totals.multiply_adds)},
                             {"softmax exponentials", std::to_string(totals.exponentials)},
                             {"bytes naive, all layers kept", bytes_text(totals.naive_bytes)},
                             {"bytes fused, all layers kept", bytes_text(totals.fused_bytes)}},
                            "  ");
}

Json quantity_json(const solve::Quantity& quantity) {
  return {{"value", quantity.value()}, {"formula", quantity.symbols()}, {"numbers", quantity.numbers()}};
}

Json stages_json(const std::vector<solve::Stage>& stages, std::int64_t total) {
  Json list = Json::array();
  for (const solve::Stage& stage : stages) {
    Json entry{{"name", stage.name}};
    entry.update(quantity_json(stage.quantity));
    list.push_back(std::move(entry));
  }
  return {{"total", total}, {"stages", std::move(list)}};
}

Json layer_json(const solve::Layer& layer, const solve::LayerCount& counted) {
  Json entry{{"name", layer.name},
             {"repeat", layer.repeat},
             {"encoding", name_of(layer.encoding)},
             {"dtype", name_of(layer.dtype)},
             {"batch", layer.batch},
             {"heads", layer.heads},
             {"tokens", layer.tokens},
             {"din", layer.input_dim},
             {"dhid", layer.hidden_dim},
             {"do", layer.value_dim},
             {"dout", layer.output_dim}};
  entry["parameters"] = quantity_json(counted.parameters);
  entry["parameters"]["parts"] = stages_json(counted.parameter_parts, counted.parameters.value())["stages"];
  entry["multiply_adds"] = stages_json(counted.multiply_adds, counted.multiply_add_total);
  if (!counted.as_written.empty()) {
    entry["scores_as_written"] = quantity_json(counted.as_written.front().quantity);
    entry["scores_projected_once"] = quantity_json(counted.as_written.back().quantity);
  }
  entry["exponentials"] = quantity_json(counted.exponentials);
  entry["naive_bytes"] = stages_json(counted.naive_bytes, counted.naive_total);
  entry["fused_bytes"] = stages_json(counted.fused_bytes, counted.fused_total);
  entry["growth"] = Json::array();
  for (const solve::Growth& g : counted.growth)
    entry["growth"].push_back({{"encoding", name_of(g.encoding)},
                               {"what", g.what},
                               {"order", g.order},
                               {"numbers", g.terms.numbers()},
                               {"value", g.terms.value()}});
  return entry;
}

void print_json(const Model& model, const std::vector<solve::LayerCount>& counts, const Totals& totals) {
  Json result{{"title", model.title}, {"layers", Json::array()}};
  for (std::size_t n = 0; n < counts.size(); ++n) result["layers"].push_back(layer_json(model.layers[n], counts[n]));
  result["total"] = {{"layers", totals.layers},
                     {"parameters", totals.parameters},
                     {"multiply_adds", totals.multiply_adds},
                     {"exponentials", totals.exponentials},
                     {"naive_bytes", totals.naive_bytes},
                     {"fused_bytes", totals.fused_bytes}};
  std::cout << result.dump(2) << "\n";
}

void run_count(const CountArguments& arguments, bool has_sizes) {
  if (!arguments.file.empty() && has_sizes) throw Error("count: expected a file or the sizes of a layer, got both");
  Model model;
  if (arguments.file.empty()) model.layers.push_back(layer_from_options(arguments));
  else model = read_model(arguments.file);
  std::vector<solve::LayerCount> counts;
  for (const solve::Layer& layer : model.layers) counts.push_back(solve::count(layer));
  const Totals totals = total_of(model.layers, counts);
  if (arguments.json) print_json(model, counts, totals);
  else print_model(model, counts, totals);
}

}  // namespace

void add_count(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("count", "Parameters, multiply-adds and bytes of a layer or model");
  auto arguments = std::make_shared<CountArguments>();
  verb->add_option("FILE.json", arguments->file, "A layer or a list of layers")->type_name("")->check(value_given());
  std::vector<CLI::Option*> sizes;
  const auto size = [&](const char* name, std::string& target, const char* about, const char* type = "N") {
    sizes.push_back(verb->add_option(name, target, about)->type_name(type)->check(value_given()));
  };
  size("--heads", arguments->heads, "Heads, N_h [1]");
  size("--din", arguments->din, "Length of the input vectors, D_in");
  size("--dhid", arguments->dhid, "Length of each head's queries and keys, D_hid");
  size("--do", arguments->value_dim, "Length of each head's values, D_o [--dhid]");
  size("--dout", arguments->dout, "Length of the output vectors, D_out [--din]");
  size("--dp", arguments->dp, "Length of relative position vectors, D_p [--din]");
  size("--tokens", arguments->tokens, "Positions, N");
  size("--grid", arguments->grid, "The positions as a grid, instead of --tokens", "ROWS,COLUMNS");
  size("--batch", arguments->batch, "Batch, B [1]");
  size("--encoding", arguments->encoding, "Where positions enter the scores [absolute]",
       "absolute|relative|quadratic|factorised");
  size("--dtype", arguments->dtype, "Type of the numbers [f32]", "f32|f64|bf16|f16");
  verb->add_flag("--json", arguments->json, "Print JSON");
  verb->footer(kCountFooter);
  verb->callback([arguments, sizes] {
    bool given = false;
    for (const CLI::Option* option : sizes) given = given || option->count() > 0;
    run_count(*arguments, given);
  });
}

}  // namespace rapt::cli
