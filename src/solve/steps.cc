#include "solve/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rapt::solve {
namespace {

// Up to this many queries are also shown on their grid.
constexpr std::size_t kMaxGridQueries = 4;

struct Operand {
  Notation symbol;  // what the scores call it
  Matrix value;
};

Notation softmax_notation(const WorkedProblem& problem, const Notation& of) {
  if (problem.normalizer == Normalizer::argmax)
    return {"argmax(" + of.text + "): 1 at the first largest of each row", "\\operatorname{argmax}(" + of.latex + ")"};
  if (problem.axis == SoftmaxAxis::columns)
    return {"softmax(" + of.text + ") down each column", "\\operatorname{softmax}_{\\text{columns}}(" + of.latex + ")"};
  return {"softmax(" + of.text + ") along each row", "\\operatorname{softmax}(" + of.latex + ")"};
}

Notation logits_notation(const WorkedProblem& problem, const ProblemHead& head, const Notation& scores) {
  Notation result = scores;
  if (problem.softcap > 0) {
    const std::string c = shortest(problem.softcap);
    result = {c + " tanh(" + scores.text + " / " + c + ")", c + " \\tanh(" + scores.latex + " / " + c + ")"};
  }
  if (!head.bias.empty()) result = {result.text + " + B", result.latex + " + B"};
  if (problem.causal != Causal::none || problem.window || !problem.mask.empty())
    result = {result.text + ", hidden pairs −∞", result.latex + " \\text{, hidden pairs } -\\infty"};
  return result;
}

Notation scaled(const WorkedProblem& problem, std::optional<double> scale, std::int64_t key_dim,
                const Notation& product) {
  if (scale && *scale != 1)
    return {shortest(*scale) + " · " + product.text, shortest(*scale) + " \\cdot " + product.latex};
  if (scale || !problem.mechanism->scaled()) return product;
  const std::string root = std::to_string(key_dim);
  return {product.text + " / √" + root, "\\frac{" + product.latex + "}{\\sqrt{" + root + "}}"};
}

Notation product_notation(const WorkedProblem& problem, const Notation& q, const Notation& k, std::int64_t key_dim) {
  if (problem.mechanism->name() == "dot" || problem.mechanism->name() == "scaled_dot")
    return scaled(problem, problem.scale, key_dim, {q.text + " " + k.text + "ᵀ", q.latex + " {" + k.latex + "}^\\top"});
  return score_notation(*problem.mechanism, q, k);
}

// x W + b as a step, or the input itself, which is already shown.
Operand project(const WorkedProblem& problem, std::size_t h, const Matrix& input, const std::string& input_name,
                const std::string& letter, const Projection& projection, bool is_query, Solution& solution) {
  if (!projection.given()) return {{input_name, input_name}, input};
  const std::size_t heads = problem.heads.size();
  const Notation w = with_head({"W_" + letter, "W_" + letter}, h, heads);
  Notation formula{input_name + " " + w.text, input_name + " " + w.latex};
  if (problem.columns)
    formula = {"each row is " + w.text + " " + input_name + "_i", "(" + w.latex + " " + input_name + "_i)_i"};
  Operand result{with_head({letter, letter}, h, heads), multiply(input, projection.weight)};
  if (!projection.bias.empty()) {
    result.value = add(result.value, projection.bias);
    formula = {formula.text + " + b_" + letter, formula.latex + " + b_" + letter};
  }
  Step step{letter + head_suffix(h, heads), head_section(h, heads), result.symbol, formula, result.value};
  if (is_query) {
    step.rows = shown_rows(problem, result.value.rows);
    step.value = take_rows(result.value, step.rows);
  }
  solution.steps.push_back(std::move(step));
  return result;
}

void add_given(const std::string& id, const std::string& section, const Notation& symbol, const Matrix& value,
               Solution& solution) {
  if (!value.empty()) solution.steps.push_back({id, section, symbol, {}, value, StepKind::given});
}

void add_given_matrices(const WorkedProblem& problem, Solution& solution) {
  const std::string section = "Given";
  const std::string& x = problem.input_name;
  add_given(x, section, {x, x}, problem.x, solution);
  const auto own = [&](const char* name, const Matrix& m) {
    const bool positions_only = problem.mechanism->grid() && m.cols == 1 &&
                                std::all_of(m.data.begin(), m.data.end(), [](double n) { return n == 0; });
    if (m.data != problem.x.data && !positions_only) add_given(name, section, {name, name}, m, solution);
  };
  own("q", problem.q);
  own("k", problem.k);
  own("v", problem.v);
  const std::size_t heads = problem.heads.size();
  for (std::size_t h = 0; h < heads; ++h) {
    const ProblemHead& head = problem.heads[h];
    const auto weight = [&](const char* letter, const Projection& projection) {
      const std::string name = std::string("W_") + letter;
      const Matrix& w = projection.weight;
      add_given(name + head_suffix(h, heads), section, with_head({name, name}, h, heads),
                problem.columns ? transpose(w) : w, solution);
      const std::string bias = std::string("b_") + letter;
      add_given(bias + head_suffix(h, heads), section, with_head({bias, bias}, h, heads), projection.bias, solution);
    };
    weight("Q", head.query);
    weight("K", head.key);
    weight("V", head.value);
    for (const NamedMatrix& p : head.parameters)
      add_given("parameter_" + p.name + head_suffix(h, heads), section,
                with_head({p.name, "\\text{" + p.name + "}"}, h, heads), p.value, solution);
    add_given("B" + head_suffix(h, heads), section, with_head({"B", "B"}, h, heads), head.bias, solution);
  }
  add_given("mask", section, {"mask (1 = attend)", "\\text{mask}"}, problem.mask, solution);
  const Matrix& output = problem.output.weight;
  add_given("W_O", section, {"W_O", "W_O"}, problem.columns ? transpose(output) : output, solution);
  add_given("b_O", section, {"b_O", "b_O"}, problem.output.bias, solution);
}

// One row of scores or weights in the grid's rows and columns.
void add_grids(const WorkedProblem& problem, const HeadResult& result, const std::string& section,
               const std::string& suffix, Solution& solution) {
  const std::vector<std::int64_t> rows = shown_rows(problem, result.scores.rows);
  const std::int64_t grid_rows = problem.grid[0], grid_cols = problem.grid[1];
  if (grid_rows * grid_cols != result.scores.cols || grid_rows == 0 || rows.size() > kMaxGridQueries) return;
  for (const std::int64_t i : rows) {
    const std::string number = std::to_string(i + 1);
    const auto on_grid = [&](const char* what, const char* symbol, const Matrix& m, StepKind kind) {
      solution.steps.push_back(
          {std::string(what) + "_on_grid_" + number + suffix,
           section,
           {std::string(symbol) + " of query " + number, std::string(symbol) + "_{" + number + "}"},
           {"its row, as the grid lies", "\\text{on the grid}"},
           reshape(m.row(i), grid_rows, grid_cols),
           kind});
    };
    on_grid("scores", "S", result.scores, StepKind::result);
    on_grid("weights", "P", result.weights, StepKind::weights);
  }
}

void add_layer_count(const Layer& layer, Solution& solution) {
  LayerCount counted = count(layer);
  const auto whole = [&](const char* id, const char* text, const std::string& formula, std::int64_t number) {
    solution.steps.push_back({id,
                              "Count",
                              {text, "\\text{" + std::string(text) + "}"},
                              {formula, "\\text{" + formula + "}"},
                              {},
                              StepKind::count,
                              {},
                              {},
                              number});
  };
  const Quantity& parameters = counted.parameters;
  whole("parameters", "parameters", parameters.symbols() + " = " + parameters.numbers(), parameters.value());
  const auto listed = [](const std::vector<Stage>& stages) {
    std::string text;
    for (const Stage& stage : stages)
      text += (text.empty() ? "" : " + ") + std::to_string(stage.quantity.value()) + " (" + stage.name + ")";
    return text;
  };
  whole("multiply_adds", "multiply-adds", listed(counted.multiply_adds), counted.multiply_add_total);
  whole("exponentials", "exponentials", counted.exponentials.symbols() + " = " + counted.exponentials.numbers(),
        counted.exponentials.value());
  whole("naive_bytes", "bytes, score matrix stored", listed(counted.naive_bytes), counted.naive_total);
  whole("fused_bytes", "bytes, fused", listed(counted.fused_bytes), counted.fused_total);
  for (const Growth& growth : counted.growth)
    if (growth.encoding == layer.encoding) solution.notes.push_back(growth.what + ": " + growth.order);
  solution.count = std::move(counted);
}

}  // namespace

const Step* Solution::find(const std::string& id) const {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.id == id; });
  return found == steps.end() ? nullptr : &*found;
}

std::vector<std::int64_t> shown_rows(const WorkedProblem& problem, std::int64_t count) {
  if (!problem.queries.empty()) return problem.queries;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

std::string head_suffix(std::size_t head, std::size_t heads) { return heads > 1 ? "_" + std::to_string(head) : ""; }

std::string head_section(std::size_t head, std::size_t heads) {
  return heads > 1 ? "Head " + std::to_string(head) : "Attention";
}

Notation score_notation(const MechanismInfo& mechanism, const Notation& q, const Notation& k) {
  std::string latex = "\\text{";
  for (const char c : mechanism.name()) latex += c == '_' ? std::string("\\_") : std::string(1, c);
  return {std::string(mechanism.name()) + ": " + std::string(mechanism.formula()),
          latex + "}(" + q.latex + ", " + k.latex + ")"};
}

Notation with_head(const Notation& symbol, std::size_t head, std::size_t heads) {
  if (heads == 1) return symbol;
  const std::string number = std::to_string(head);
  return {symbol.text + "(" + number + ")", symbol.latex + "^{(" + number + ")}"};
}

void add_weights(const WorkedProblem& problem, std::size_t head, const HeadResult& result, const Notation& product,
                 Solution& solution) {
  const std::size_t heads = problem.heads.size();
  const std::vector<std::int64_t> rows = shown_rows(problem, result.scores.rows);
  const auto step = [&](const char* id, const Notation& symbol, const Notation& formula, const Matrix& m,
                        StepKind kind) {
    solution.steps.push_back({id + head_suffix(head, heads), head_section(head, heads), with_head(symbol, head, heads),
                              formula, take_rows(m, rows), kind, rows});
  };
  step("scores", {"S", "S"}, product, result.scores, StepKind::result);
  Notation before{"S", "S"};
  if (result.changed) {
    before = {"L", "L"};
    step("logits", before, logits_notation(problem, problem.heads[head], with_head({"S", "S"}, head, heads)),
         result.logits, StepKind::result);
  }
  step("weights", {"P", "P"}, softmax_notation(problem, with_head(before, head, heads)), result.weights,
       StepKind::weights);
}

void solve_attention(const WorkedProblem& problem, Solution& solution) {
  const std::size_t heads = problem.heads.size();
  const auto name_of_input = [&](const char* own, const Matrix& m) {
    return m.data == problem.x.data ? problem.input_name : std::string(own);
  };
  std::vector<Matrix> outputs;
  for (std::size_t h = 0; h < heads; ++h) {
    const ProblemHead& head = problem.heads[h];
    const Operand q = project(problem, h, problem.q, name_of_input("q", problem.q), "Q", head.query, true, solution);
    const Operand k = project(problem, h, problem.k, name_of_input("k", problem.k), "K", head.key, false, solution);
    HeadVectors vectors{h,
                        head.query.given() ? "q" : q.symbol.text,
                        head.key.given() ? "k" : k.symbol.text,
                        "v",
                        {q.value, k.value, {}},
                        {}};
    Operand v;
    if (!problem.v.empty()) {
      v = project(problem, h, problem.v, name_of_input("v", problem.v), "V", head.value, false, solution);
      vectors.inputs.v.push_back(v.value);
      if (!head.value.given()) vectors.v = v.symbol.text;
    }
    vectors.result = attend_head(problem, head, vectors.inputs, problem.scale);
    const std::string section = head_section(h, heads);
    const std::string suffix = head_suffix(h, heads);
    add_weights(problem, h, vectors.result, product_notation(problem, q.symbol, k.symbol, k.value.cols), solution);
    add_grids(problem, vectors.result, section, suffix, solution);
    const std::vector<std::int64_t> rows = shown_rows(problem, q.value.rows);
    if (!vectors.result.out.empty()) {
      outputs.push_back(vectors.result.out.front());
      solution.steps.push_back({"Z" + suffix,
                                section,
                                with_head({"Z", "Z"}, h, heads),
                                {with_head({"P", "P"}, h, heads).text + " " + v.symbol.text,
                                 with_head({"P", "P"}, h, heads).latex + " " + v.symbol.latex},
                                take_rows(outputs.back(), rows),
                                StepKind::result,
                                rows});
    }
    solution.maps.push_back({"head_" + std::to_string(h), heads > 1 ? "head " + std::to_string(h) : "",
                             take_rows(vectors.result.weights, rows), rows});
    solution.vectors.push_back(std::move(vectors));
  }
  if (outputs.empty()) return;

  const std::vector<std::int64_t> rows = shown_rows(problem, problem.q.rows);
  const auto final_step = [&](const char* id, const Notation& symbol, const Notation& formula, const Matrix& m) {
    solution.steps.push_back({id, "Result", symbol, formula, take_rows(m, rows), StepKind::result, rows});
  };
  solution.result = join_columns(outputs);
  Notation formula{"Z", "Z"};
  if (heads > 1) {
    const std::string last = std::to_string(heads - 1);
    formula = heads == 2 ? Notation{"[Z(0), Z(1)]", "[Z^{(0)}, Z^{(1)}]"}
                         : Notation{"[Z(0), …, Z(" + last + ")]", "[Z^{(0)}, \\dots, Z^{(" + last + ")}]"};
    final_step("concat", {"C", "C"}, formula, solution.result);
    formula = {"C", "C"};
  }
  if (!problem.output.given() && !problem.residual) return;
  if (problem.output.given()) {
    solution.result = multiply(solution.result, problem.output.weight);
    if (problem.columns) formula = {"each row is W_O times that of " + formula.text, "(W_O " + formula.latex + "_i)_i"};
    else formula = {formula.text + " W_O", formula.latex + " W_O"};
  }
  if (!problem.output.bias.empty()) {
    solution.result = add(solution.result, problem.output.bias);
    formula = {formula.text + " + b_O", formula.latex + " + b_O"};
  }
  if (problem.residual) {
    solution.result = add(solution.result, problem.x);
    formula = {formula.text + " + " + problem.input_name, formula.latex + " + " + problem.input_name};
  }
  final_step("result", {"Y", "Y"}, formula, solution.result);
}

void solve_limit(const WorkedProblem& problem, Solution& solution) {
  const std::size_t heads = problem.heads.size();
  const Limit& limit = *problem.limit;
  const std::vector<std::int64_t> rows = shown_rows(problem, problem.q.rows);
  for (std::size_t h = 0; h < heads; ++h) {
    Matrix table(static_cast<std::int64_t>(limit.values.size()), 3);
    for (std::size_t n = 0; n < limit.values.size(); ++n) {
      const double value = limit.values[n];
      ProblemHead head = problem.heads[h];
      std::optional<double> scale = problem.scale;
      if (limit.parameter == "scale") {
        scale = value;
      } else {
        std::erase_if(head.parameters, [&](const NamedMatrix& p) { return p.name == limit.parameter; });
        head.parameters.push_back({limit.parameter, Matrix(1, 1, value)});
      }
      const auto projected = [](const Matrix& x, const Projection& p) {
        const Matrix y = p.given() ? multiply(x, p.weight) : x;
        return p.bias.empty() ? y : add(y, p.bias);
      };
      const HeadResult result =
          attend_head(problem, head, {projected(problem.q, head.query), projected(problem.k, head.key), {}}, scale);
      // The row farthest from one-hot; all weights but the largest are summed, which is exact where 1 − largest is not.
      double largest = 1;
      double distance = 0;
      for (const std::int64_t i : rows) {
        const auto row = result.weights.row(i);
        const auto peak = std::max_element(row.begin(), row.end());
        double others = 0;
        for (auto weight = row.begin(); weight != row.end(); ++weight) others += weight == peak ? 0 : *weight;
        largest = std::min(largest, *peak);
        distance = std::max(distance, others);
      }
      const auto place = static_cast<std::int64_t>(n);
      table(place, 0) = value;
      table(place, 1) = largest;
      table(place, 2) = distance;
      const std::string setting = limit.parameter + " = " + shortest(value);
      const std::string section = (heads > 1 ? head_section(h, heads) + ", " : "") + setting;
      const std::string suffix = head_suffix(h, heads) + "@" + shortest(value);
      solution.steps.push_back({"weights" + suffix,
                                section,
                                {"P", "P"},
                                softmax_notation(problem, {"S", "S"}),
                                take_rows(result.weights, rows),
                                StepKind::weights,
                                rows});
      add_grids(problem, result, section, suffix, solution);
      solution.maps.push_back({"head_" + std::to_string(h) + "_" + limit.parameter + "_" + shortest(value), setting,
                               take_rows(result.weights, rows), rows});
    }
    solution.steps.push_back(
        {"limit" + head_suffix(h, heads),
         heads > 1 ? "Limit, head " + std::to_string(h) : "Limit",
         {"distance from one-hot", "\\text{distance from one-hot}"},
         {"the sum of all weights but the largest, in the worst row", "\\max_i \\sum_{j \\neq j^*} P_{ij}"},
         table,
         StepKind::table,
         {},
         {limit.parameter, "largest weight", "distance"}});
  }
}

Solution solve(const WorkedProblem& problem) {
  Solution solution;
  if (problem.layer) add_layer_count(*problem.layer, solution);
  if (problem.has_attention()) {
    if (problem.shared) {
      solve_shared(problem, solution);
    } else {
      add_given_matrices(problem, solution);
      if (problem.limit) solve_limit(problem, solution);
      else solve_attention(problem, solution);
    }
  }
  return solution;
}

}  // namespace rapt::solve
