#include "solve/problem.h"

#include <algorithm>
#include <set>

#include "attend/counted.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "rapt/registry.h"
#include "rapt/tiles.h"

namespace rapt::solve {
namespace {

// Every number is printed, so a worked example has no more rows.
constexpr std::int64_t kMaxTokens = 256;

// The matrix as in x W, [in, out], whatever the file's convention.
Projection read_projection(const JsonNode& node, const std::string& weight, const std::string& bias, bool columns) {
  Projection result;
  if (const auto w = node.find(weight)) result.weight = columns ? transpose(w->matrix()) : w->matrix();
  if (const auto b = node.find(bias)) {
    if (!result.given()) b->fail("expected its matrix " + weight + " beside it, got none");
    const std::vector<double> numbers = b->numbers();
    result.bias = reshape(numbers, 1, static_cast<std::int64_t>(numbers.size()));
    if (result.bias.cols != result.weight.cols)
      b->fail("expected " + counted(result.weight.cols, "number") + ", one for each output of " + weight + ", got " +
              std::to_string(numbers.size()));
  }
  return result;
}

int depth_of(const nlohmann::json& value) {
  if (value.is_object()) return 2;
  if (!value.is_array()) return 0;
  return 1 + (value.empty() ? 0 : depth_of(value.front()));
}

Matrix read_of_rank(const JsonNode& node, int rank) {
  const int depth = depth_of(node.value());
  if (depth != rank) {
    static constexpr const char* kNames[] = {"a number", "a list of numbers", "a matrix"};
    node.fail(std::string("expected ") + kNames[rank] + " for each head, got " + node.kind());
  }
  if (rank == 0) return Matrix(1, 1, node.number());
  return node.matrix();
}

const ParameterSpec* find_parameter(const MechanismInfo& mechanism, const std::string& name) {
  for (const ParameterSpec& spec : mechanism.parameters())
    if (spec.name == name) return &spec;
  return nullptr;
}

bool is_setting(const MechanismInfo& mechanism, const std::string& name) {
  return std::any_of(mechanism.settings().begin(), mechanism.settings().end(),
                     [&](const SettingSpec& spec) { return spec.name == name; });
}

// `index` is −1 in a head's own object; otherwise the head's number, and a value may list an entry per head.
void read_parameters(const JsonNode& node, WorkedProblem& problem, ProblemHead& head, std::int64_t index) {
  node.require_object();
  for (const auto& [name, unused] : node.value().items()) {
    const JsonNode value = node.at(name);
    if (is_setting(*problem.mechanism, name)) {
      if (index > 0) continue;
      if (index < 0) value.fail("expected a setting of all heads in the file's own \"parameters\", got it in a head");
      problem.settings.push_back({name, value.number()});
      continue;
    }
    const ParameterSpec* spec = find_parameter(*problem.mechanism, name);
    if (!spec) {
      std::string known;
      for (const ParameterSpec& p : problem.mechanism->parameters())
        known += (known.empty() ? "" : ", ") + std::string(p.name);
      for (const SettingSpec& s : problem.mechanism->settings())
        known += (known.empty() ? "" : ", ") + std::string(s.name);
      value.fail("expected " + (known.empty() ? "no parameter" : "one of " + known) + " for the score " +
                 std::string(problem.mechanism->name()) + ", got '" + name + "'");
    }
    Matrix numbers;
    if (index >= 0 && depth_of(value.value()) == spec->rank() + 1) {
      const std::vector<JsonNode> items = value.items();
      if (items.size() != problem.heads.size())
        value.fail("expected one entry for each of " + counted(problem.heads.size(), "head") + ", got " +
                   std::to_string(items.size()));
      numbers = read_of_rank(items[static_cast<std::size_t>(index)], spec->rank());
    } else {
      numbers = read_of_rank(value, spec->rank());
    }
    std::erase_if(head.parameters, [&wanted = name](const NamedMatrix& p) { return p.name == wanted; });
    head.parameters.push_back({name, std::move(numbers)});
  }
}

void read_bias(const JsonNode& node, ProblemHead& head) {
  head.scalar_bias = node.value().is_number();
  head.bias = head.scalar_bias ? Matrix(1, 1, node.number()) : node.matrix();
}

void read_formula(const JsonNode& root, WorkedProblem& problem) {
  if (root.has("score")) root.at("score").fail("expected a score or a formula, got both");
  const auto text = [&](const char* name) { return root.has(name) ? root.at(name).text() : std::string(); };
  const Score score = formula(text("formula"), {.pair = text("pair"), .visible = text("visible")});
  problem.mechanism = score.mechanism;
  problem.formula = score.object;
  // Heads are computed one by one.
  if (problem.mechanism->definition().reads_head)
    root.at(root.has("formula") ? "formula" : "visible")
        .fail("expected a formula that does not read the head, got one that does: give each head a parameter");
}

void read_score(const JsonNode& root, WorkedProblem& problem) {
  const auto score = root.find("score");
  const std::string name = score ? score->text() : "scaled_dot";
  if (root.has("formula") || root.has("pair") || root.has("visible")) read_formula(root, problem);
  else {
    try {
      problem.mechanism = &mechanism(name);
    } catch (const Error& e) {
      root.at("score").fail(e.what());
    }
  }
  if (const auto scale = root.find("scale")) {
    if (scale->value().is_number()) problem.scale = scale->number();
    else if (scale->value() == "none") problem.scale = 1;
    else if (scale->value() != "sqrt")
      scale->fail("expected \"sqrt\", \"none\" or a number that multiplies the scores, got " + scale->kind());
    else if (!problem.mechanism->scaled())
      scale->fail("expected a number, or the score scaled_dot beside \"sqrt\", got \"sqrt\" with the score " +
                  std::string(problem.mechanism->name()));
  }
  if (const auto softcap = root.find("softcap")) {
    problem.softcap = softcap->number();
    if (problem.softcap <= 0) softcap->fail("expected a number above 0, got " + softcap->kind());
  }
  if (const auto normalize = root.find("normalize")) {
    const std::string kind = normalize->text();
    if (kind != "softmax" && kind != "argmax") normalize->fail("expected softmax or argmax, got " + kind);
    problem.normalizer = kind == "argmax" ? Normalizer::argmax : Normalizer::softmax;
  }
  if (const auto axis = root.find("softmax_axis")) {
    const std::string along = axis->text();
    if (along != "rows" && along != "columns") axis->fail("expected rows or columns, got " + along);
    problem.axis = along == "columns" ? SoftmaxAxis::columns : SoftmaxAxis::rows;
    if (problem.axis == SoftmaxAxis::columns && problem.normalizer == Normalizer::argmax)
      axis->fail("expected softmax for columns, got argmax");
  }
  if (const auto causal = root.find("causal")) {
    const std::string corner = causal->text();
    if (corner != "top_left" && corner != "bottom_right")
      causal->fail("expected top_left or bottom_right, got " + corner);
    problem.causal = corner == "top_left" ? Causal::top_left : Causal::bottom_right;
  }
  if (const auto window = root.find("window")) {
    const std::vector<std::int64_t> sizes = window->integers(-1, kMaxTokens);
    if (sizes.size() != 2) window->fail("expected [left, right], −1 for no limit, got " + window->kind());
    problem.window = Window{sizes[0], sizes[1]};
  }
  if (const auto grid = root.find("grid")) {
    const std::vector<std::int64_t> sizes = grid->integers(1, kMaxTokens);
    if (sizes.size() != 2) grid->fail("expected [rows, columns], got " + grid->kind());
    if (sizes[0] * sizes[1] > kMaxTokens)
      grid->fail("expected at most " + std::to_string(kMaxTokens) + " positions, got " +
                 std::to_string(sizes[0] * sizes[1]));
    problem.grid = {sizes[0], sizes[1]};
  }
  if (problem.mechanism->grid() && problem.grid[0] == 0)
    root.fail("expected \"grid\": [rows, columns] for the score " + std::string(problem.mechanism->name()) +
              ", got none");
}

// A mask of booleans, or of ones and zeros.
Matrix read_mask(const JsonNode& node) {
  nlohmann::json numbers = node.value();
  if (numbers.is_array())
    for (nlohmann::json& row : numbers)
      if (row.is_array())
        for (nlohmann::json& cell : row)
          if (cell.is_boolean()) cell = cell.get<bool>() ? 1 : 0;
  if (depth_of(numbers) != 2) node.fail("expected a matrix of true (attend) and false, got " + node.kind());
  for (const nlohmann::json& row : numbers)
    for (const nlohmann::json& cell : row)
      if (cell != 0 && cell != 1)
        node.fail("expected true (attend) and false, or 1 and 0, got " + cell.dump().substr(0, 40));
  Matrix result;
  for (const nlohmann::json& row : numbers) {
    if (result.rows == 0) result.cols = static_cast<std::int64_t>(row.size());
    if (static_cast<std::int64_t>(row.size()) != result.cols)
      node.fail("expected rows of equal length, got " + std::to_string(result.cols) + " and " +
                counted(row.size(), "number"));
    for (const nlohmann::json& cell : row) result.data.push_back(cell.get<double>());
    ++result.rows;
  }
  return result;
}

void read_inputs(const JsonNode& root, WorkedProblem& problem) {
  if (root.has("X") && root.has("h")) root.at("h").fail("expected one name for the input, X or h, got both");
  if (root.has("h")) problem.input_name = "h";
  if (const auto x = root.find(problem.input_name)) problem.x = x->matrix();
  if (const auto q = root.find("q")) problem.q = q->matrix();
  if (const auto k = root.find("k")) problem.k = k->matrix();
  if (const auto v = root.find("v")) problem.v = v->matrix();
  for (const char* name : {"X", "h", "q", "k", "v"})
    if (const auto node = root.find(name); node && node->matrix().rows > kMaxTokens)
      node->fail("expected at most " + std::to_string(kMaxTokens) + " rows, got " +
                 std::to_string(node->matrix().rows));
}

void read_heads(const JsonNode& root, WorkedProblem& problem) {
  std::vector<JsonNode> nodes;
  if (const auto list = root.find("heads")) {
    nodes = list->items();
    for (const char* name : {"W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"})
      if (root.has(name)) root.at(name).fail("expected it in each head, since the file has \"heads\", got it outside");
    for (const JsonNode& node : nodes)
      node.allow_only({"W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V", "parameters", "bias"});
  } else {
    nodes = {root};
  }
  problem.heads.resize(nodes.size());
  for (std::size_t h = 0; h < nodes.size(); ++h) {
    ProblemHead& head = problem.heads[h];
    head.query = read_projection(nodes[h], "W_Q", "b_Q", problem.columns);
    head.key = read_projection(nodes[h], "W_K", "b_K", problem.columns);
    head.value = read_projection(nodes[h], "W_V", "b_V", problem.columns);
    if (const auto parameters = root.find("parameters"))
      read_parameters(*parameters, problem, head, static_cast<std::int64_t>(h));
    if (const auto bias = root.find("bias")) read_bias(*bias, head);
    if (!root.has("heads")) continue;
    if (const auto parameters = nodes[h].find("parameters")) read_parameters(*parameters, problem, head, -1);
    if (const auto bias = nodes[h].find("bias")) read_bias(*bias, head);
  }
  problem.output = read_projection(root, "W_O", "b_O", problem.columns);
}

void check_projection(const JsonNode& root, const std::string& where, const Matrix& input,
                      const Projection& projection) {
  if (projection.given() && projection.weight.rows != input.cols)
    root.fail(where + ": expected " + counted(input.cols, "input") + ", one for each number of the vectors, got " +
              std::to_string(projection.weight.rows));
}

void check_bias(const JsonNode& root, const std::string& where, ProblemHead& head, std::int64_t queries,
                std::int64_t keys) {
  if (head.bias.empty()) return;
  if (head.scalar_bias) head.bias = Matrix(1, keys, head.bias(0, 0));
  if (head.bias.cols != keys || (head.bias.rows != 1 && head.bias.rows != queries))
    root.fail(where + "bias: expected a number, 1 × " + std::to_string(keys) + " or " + std::to_string(queries) +
              " × " + std::to_string(keys) + ", got " + shape_text(head.bias));
}

void check_mask(const JsonNode& root, const WorkedProblem& problem, std::int64_t queries, std::int64_t keys) {
  const Matrix& mask = problem.mask;
  if (mask.empty()) return;
  if (mask.cols != keys || (mask.rows != 1 && mask.rows != queries))
    root.at("mask").fail("expected " + std::to_string(queries) + " × " + std::to_string(keys) + ", got " +
                         shape_text(mask));
}

// Fills q, k, v from x, and zeros where the score reads positions only; then checks every size.
void check_attention(const JsonNode& root, WorkedProblem& problem) {
  if (problem.q.empty()) problem.q = problem.x;
  if (problem.k.empty()) problem.k = problem.x;
  if (problem.v.empty()) problem.v = problem.x;
  if (problem.q.empty() && problem.k.empty() && problem.mechanism->grid()) {
    problem.q = Matrix(problem.grid[0] * problem.grid[1], 1);
    problem.k = problem.q;
  }
  if (problem.q.empty() || problem.k.empty()) root.fail("expected an input, X, h, or q and k, got none");
  if (!problem.v.empty() && problem.v.rows != problem.k.rows)
    root.fail("v: expected " + counted(problem.k.rows, "row") + " as in k, got " + std::to_string(problem.v.rows));
  const bool listed = root.has("heads");
  std::int64_t joined = 0;
  for (std::size_t h = 0; h < problem.heads.size(); ++h) {
    const std::string where = listed ? "heads[" + std::to_string(h) + "]." : "";
    ProblemHead& head = problem.heads[h];
    check_projection(root, where + "W_Q", problem.q, head.query);
    check_projection(root, where + "W_K", problem.k, head.key);
    if (problem.v.empty() && head.value.given()) root.fail(where + "W_V: expected X or v beside it, got neither");
    if (!problem.v.empty()) check_projection(root, where + "W_V", problem.v, head.value);
    check_bias(root, where, head, problem.q.rows, problem.k.rows);
    joined += head.value.given() ? head.value.weight.cols : problem.v.cols;
  }
  if (problem.output.given() && problem.v.empty()) root.fail("W_O: expected X or v beside it, got neither");
  if (problem.output.given() && problem.output.weight.rows != joined)
    root.fail("W_O: expected " + counted(joined, "input") + ", one for each number that the heads give, got " +
              std::to_string(problem.output.weight.rows));
  const std::int64_t width = problem.output.given() ? problem.output.weight.cols : joined;
  if (problem.residual && (problem.x.rows != problem.q.rows || problem.x.cols != width))
    root.at("residual")
        .fail("expected an input of the result's size, " + std::to_string(problem.q.rows) + " × " +
              std::to_string(width) + ", got " + (problem.x.empty() ? "none" : shape_text(problem.x)));
  check_mask(root, problem, problem.q.rows, problem.k.rows);
}

void read_shared(const JsonNode& root, WorkedProblem& problem) {
  Shared shared;
  const auto column = [](const JsonNode& node) {
    const Matrix m = node.matrix();
    return node.value().is_array() && !node.value().front().is_array() ? transpose(m) : m;
  };
  shared.skip = column(root.at("x_s"));
  const std::int64_t positions = shared.skip.rows;
  const std::int64_t channels = shared.skip.cols;
  if (positions > kMaxTokens)
    root.at("x_s").fail("expected at most " + std::to_string(kMaxTokens) + " positions, got " +
                        std::to_string(positions));
  const JsonNode values = root.at("values");
  values.require_object();
  if (values.value().empty()) values.fail("expected a value input for at least one task, got none");
  const std::vector<JsonNode> heads = root.at("heads").items();
  for (const auto& [name, unused] : values.value().items()) {
    Shared::Task task{name, column(values.at(name)), {}};
    if (task.input.rows != positions)
      values.at(name).fail("expected " + counted(positions, "position") + " as in x_s, got " +
                           std::to_string(task.input.rows));
    if (const auto output = root.find("W_" + name)) {
      task.output = column(*output);
      const std::int64_t joined = static_cast<std::int64_t>(heads.size()) * task.input.cols;
      if (task.output.rows != joined)
        output->fail("expected " + counted(joined, "row") + ", since " + counted(heads.size(), "head") +
                     " are joined, got " + shape_text(task.output));
    }
    shared.tasks.push_back(std::move(task));
  }
  if (const auto flag = root.find("normalize_inputs")) shared.standardize_inputs = flag->boolean();
  const auto square = [&](const JsonNode& node) {
    Matrix m = node.matrix();
    if (m.rows != positions || m.cols != positions)
      node.fail("expected " + std::to_string(positions) + " × " + std::to_string(positions) + " for W @ x, got " +
                shape_text(m));
    return m;
  };
  problem.heads.resize(heads.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].allow_only({"W_qk", "bias", "parameters"}, "W_v");
    ProblemHead& head = problem.heads[h];
    head.shared_map = square(heads[h].at("W_qk"));
    for (const Shared::Task& task : shared.tasks) head.value_maps.push_back(square(heads[h].at("W_v" + task.name)));
    if (const auto bias = root.find("bias")) read_bias(*bias, head);
    if (const auto bias = heads[h].find("bias")) read_bias(*bias, head);
    if (const auto parameters = root.find("parameters"))
      read_parameters(*parameters, problem, head, static_cast<std::int64_t>(h));
    if (const auto parameters = heads[h].find("parameters")) read_parameters(*parameters, problem, head, -1);
    check_bias(root, "heads[" + std::to_string(h) + "].", head, positions, positions);
  }
  for (const Shared::Task& task : shared.tasks) {
    const std::int64_t width =
        task.output.empty() ? static_cast<std::int64_t>(heads.size()) * task.input.cols : task.output.cols;
    if (problem.residual && width != task.input.cols)
      root.at("residual")
          .fail("task " + task.name + ": expected a result of " + counted(task.input.cols, "column") +
                " as the input has, got " + std::to_string(width));
  }
  if (shared.standardize_inputs) {
    const auto varies = [](const Matrix& m) { return std::set<double>(m.data.begin(), m.data.end()).size() > 1; };
    constexpr const char* kNoDeviation = "expected numbers that differ, got equal ones, whose standard deviation is 0";
    if (!varies(shared.skip)) root.at("x_s").fail(kNoDeviation);
    for (const Shared::Task& task : shared.tasks)
      if (!varies(task.input)) values.at(task.name).fail(kNoDeviation);
  }
  problem.q = Matrix(positions, channels);
  problem.k = problem.q;
  check_mask(root, problem, positions, positions);
  problem.shared = std::move(shared);
}

void read_limit(const JsonNode& node, WorkedProblem& problem) {
  node.allow_only({"parameter", "values"});
  Limit limit{node.at("parameter").text(), node.at("values").numbers()};
  if (limit.values.size() > 64)
    node.at("values").fail("expected at most 64 values, got " + std::to_string(limit.values.size()));
  const ParameterSpec* spec = find_parameter(*problem.mechanism, limit.parameter);
  if (limit.parameter != "scale" && (!spec || spec->rank() != 0))
    node.at("parameter")
        .fail("expected scale, or a parameter of the score " + std::string(problem.mechanism->name()) +
              " that is one number for each head, got " + limit.parameter);
  problem.limit = std::move(limit);
}

void read_shown_rows(const JsonNode& root, WorkedProblem& problem) {
  if (const auto queries = root.find("queries")) {
    problem.queries = queries->integers(1, problem.q.rows);
    for (std::int64_t& row : problem.queries) --row;
  }
  const auto labels = [&](const char* key, std::int64_t count, std::vector<std::string>& target) {
    const auto node = root.find(key);
    if (!node) return;
    target = node->texts();
    if (static_cast<std::int64_t>(target.size()) != count)
      node->fail("expected " + counted(count, "label") + ", one for each row, got " + std::to_string(target.size()));
  };
  if (root.has("labels")) {
    labels("labels", problem.q.rows, problem.query_labels);
    labels("labels", problem.k.rows, problem.key_labels);
  }
  labels("query_labels", problem.q.rows, problem.query_labels);
  labels("key_labels", problem.k.rows, problem.key_labels);
}

}  // namespace

WorkedProblem read_problem(const std::string& file, const FileReader& reader) {
  const nlohmann::json json = read_json_file("solve", file, reader);
  const JsonNode root("solve", file, json);
  root.require_object();
  WorkedProblem problem;
  problem.file = file;
  const bool shared = root.has("x_s");
  root.allow_only({"title",
                   "source",
                   "numbers_from",
                   "precision",
                   "form",
                   "vectors",
                   "queries",
                   "labels",
                   "query_labels",
                   "key_labels",
                   "X",
                   "h",
                   "q",
                   "k",
                   "v",
                   "heads",
                   "W_Q",
                   "W_K",
                   "W_V",
                   "b_Q",
                   "b_K",
                   "b_V",
                   "W_O",
                   "b_O",
                   "residual",
                   "score",
                   "formula",
                   "pair",
                   "visible",
                   "parameters",
                   "scale",
                   "softcap",
                   "normalize",
                   "softmax_axis",
                   "causal",
                   "window",
                   "mask",
                   "bias",
                   "grid",
                   "limit",
                   "count",
                   "expect",
                   "x_s",
                   "values",
                   "normalize_inputs"},
                  shared ? "W_" : "");
  if (const auto title = root.find("title")) problem.title = title->text();
  if (const auto source = root.find("source")) problem.source = source->text();
  if (const auto from = root.find("numbers_from")) problem.numbers_from = from->text();
  if (const auto precision = root.find("precision")) problem.precision = static_cast<int>(precision->integer(0, 17));
  if (const auto form = root.find("form")) {
    if (form->text() != "matrices" && form->text() != "vectors")
      form->fail("expected matrices or vectors, got " + form->text());
    problem.vector_form = form->text() == "vectors";
  }
  if (const auto vectors = root.find("vectors")) {
    if (vectors->text() != "rows" && vectors->text() != "columns")
      vectors->fail("expected rows (x W) or columns (W x), got " + vectors->text());
    problem.columns = vectors->text() == "columns";
  }
  if (const auto residual = root.find("residual")) problem.residual = residual->boolean();
  if (const auto layer = root.find("count")) problem.layer = read_layer(*layer);

  const auto given = [&](const char* name) { return root.has(name); };
  constexpr const char* kInputs[] = {"X", "h", "q", "k", "v", "score", "formula", "pair", "visible", "heads", "grid"};
  if (!shared && (given("values") || given("normalize_inputs")))
    root.fail("expected x_s, the skip connection, for shared attention, got none");
  if (shared || !problem.layer || std::any_of(std::begin(kInputs), std::end(kInputs), given)) {
    read_score(root, problem);
    if (const auto mask = root.find("mask")) problem.mask = read_mask(*mask);
    if (shared) {
      for (const char* name : {"X", "h", "q", "k", "v", "W_O", "b_O", "limit", "form"})
        if (given(name)) root.at(name).fail("expected it without x_s, got both");
      read_shared(root, problem);
    } else {
      read_inputs(root, problem);
      read_heads(root, problem);
      check_attention(root, problem);
      if (const auto limit = root.find("limit")) read_limit(*limit, problem);
    }
    read_shown_rows(root, problem);
  }
  if (const auto expect = root.find("expect")) problem.expectations = read_expectations(*expect);
  return problem;
}

}  // namespace rapt::solve
