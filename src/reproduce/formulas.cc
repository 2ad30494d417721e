// Assignment 6, a.1, b.1, b.2, d.2: parameters and cost of attention, by formula and counted.
#include <cmath>

#include "layers/attention.h"
#include "pictures/scaling.h"
#include "rapt/registry.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/worked.h"
#include "solve/count_layer.h"
#include "tensor/random.h"

namespace rapt::reproduce {
namespace {

struct Sizes {
  std::int64_t heads, in, hidden, value, out;
};

// The document's formula, as written.
std::int64_t document_parameters(const Sizes& s) {
  return s.heads * s.in * (2 * s.hidden + s.value) + s.heads * s.value * s.out + s.out;
}

// What a layer of these sizes really contains.
std::int64_t built_parameters(const Sizes& s) {
  layers::MultiHeadShape shape;
  shape.score = layers::choose_score("scaled_dot");
  shape.query_in = shape.key_in = s.in;
  shape.heads = s.heads;
  shape.hidden = s.hidden;
  shape.value_dim = s.value;
  shape.out = s.out;
  shape.bias = layers::ProjectionBias::output;
  layers::Parameters parameters;
  const layers::MultiHeadAttention layer(parameters, "attention", shape);
  return parameters.count();
}

solve::LayerCount layer_count(const Sizes& s, solve::Encoding encoding, std::int64_t side) {
  solve::Layer layer;
  layer.heads = s.heads;
  layer.input_dim = s.in;
  layer.hidden_dim = s.hidden;
  layer.value_dim = s.value;
  layer.output_dim = s.out;
  layer.encoding = encoding;
  layer.grid = {side, side};
  solve::complete(layer, "reproduce: ");
  return solve::count(layer);
}

void add_parameters(const Context& context, Section& section) {
  Table table{"a.1: N_h·D_in·(2·D_hid + D_o) + N_h·D_o·D_out + D_out",
              {"heads, D_in, D_hid, D_o, D_out", "by the formula", "rapt count", "in a built layer"},
              {}};
  std::vector<Sizes> list{{9, 400, 400, 400, 400}, {8, 512, 64, 64, 512}, {1, 3, 2, 2, 3}};
  Random random(context.seed, 0x666f726d);
  const auto size = [&] { return static_cast<std::int64_t>(1 + random.below(96)); };
  const std::size_t total = context.quick ? 12 : 40;
  while (list.size() < total) list.push_back({size(), size(), size(), size(), size()});
  std::int64_t equal = 0;
  for (std::size_t n = 0; n < list.size(); ++n) {
    const Sizes& s = list[n];
    const std::int64_t formula = document_parameters(s);
    const std::int64_t count = layer_count(s, solve::Encoding::absolute, 4).parameters.value();
    const std::int64_t built = built_parameters(s);
    equal += formula == count && formula == built ? 1 : 0;
    if (n < 6)
      table.rows.push_back({std::to_string(s.heads) + ", " + std::to_string(s.in) + ", " + std::to_string(s.hidden) +
                                ", " + std::to_string(s.value) + ", " + std::to_string(s.out),
                            grouped(formula), grouped(count), grouped(built)});
  }
  section.add(std::move(table));
  const auto all = static_cast<std::int64_t>(list.size());
  section.claims.push_back({"Assignment 6, a.1", "Parameters of multi-head self-attention",
                            "N_h·D_in(2·D_hid+D_o) + N_h·D_o·D_out + D_out",
                            "equal for " + of(equal, all) + " layers of random sizes",
                            "equal to a layer that is built, in all cases", equal == all});
}

// The slope of log y over log x between two points.
double exponent(double x1, double y1, double x2, double y2) { return std::log(y2 / y1) / std::log(x2 / x1); }

void add_cost(Section& section) {
  struct Line {
    std::string name;
    std::function<double(const Sizes&, std::int64_t)> cost;  // of sizes and of a side of the grid
  };
  const auto total = [](solve::Encoding encoding) {
    return [encoding](const Sizes& s, std::int64_t side) {
      return static_cast<double>(layer_count(s, encoding, side).multiply_add_total);
    };
  };
  const std::vector<Line> lines{{"absolute, scores as written",
                                 [](const Sizes& s, std::int64_t side) {
                                   const solve::LayerCount c = layer_count(s, solve::Encoding::absolute, side);
                                   return static_cast<double>(c.as_written.front().quantity.value());
                                 }},
                                {"absolute, projections once", total(solve::Encoding::absolute)},
                                {"quadratic", total(solve::Encoding::quadratic)},
                                {"quadratic, factorised", total(solve::Encoding::factorised)}};
  const auto square_layer = [](std::int64_t d) { return Sizes{1, d, d, d, d}; };
  // Growth in N where N ≫ D, and in D where D ≫ N: the leading terms alone.
  Table table{"b.2: how multiply-adds grow, the exponents of N (N ≫ D_x) and of D_x (D_x ≫ N)",
              {"encoding", "in N", "in D_x"},
              {}};
  std::vector<std::array<double, 2>> slopes;
  pictures::Scaling scaling{
      "Multiply-adds of one head on a square grid, D = 64", "positions N", "multiply-adds", {}, {}};
  for (const Line& line : lines) {
    const double in_n =
        exponent(256.0 * 256, line.cost(square_layer(4), 256), 1024.0 * 1024, line.cost(square_layer(4), 1024));
    const double in_d = exponent(1024, line.cost(square_layer(1024), 2), 8192, line.cost(square_layer(8192), 2));
    slopes.push_back({in_n, in_d});
    table.rows.push_back({line.name, fixed(in_n, 2), fixed(in_d, 2)});
    pictures::Series series{line.name, {}, {}};
    for (std::int64_t side = 4; side <= 256; side *= 2) {
      series.x.push_back(static_cast<double>(side * side));
      series.y.push_back(line.cost(square_layer(64), side));
    }
    scaling.series.push_back(std::move(series));
  }
  section.add(std::move(table));
  section.show("cost", draw(scaling), "Counted by the formulas of rapt count.");
  const auto near = [](double x, double y) { return std::abs(x - y) < 0.05; };
  const auto text = [](const std::array<double, 2>& s) { return "N^" + fixed(s[0], 2) + ", D_x^" + fixed(s[1], 2); };
  section.claims.push_back({"Assignment 6, b.2", "Scores as written, pair by pair",
                            "O(N²D_x²); the document's O(D_x³) per term is an error", text(slopes[0]),
                            "exponents 2 and 2", near(slopes[0][0], 2) && near(slopes[0][1], 2)});
  section.claims.push_back({"Assignment 6, b.2", "Quadratic encoding", "O(N²D_x + ND_x²)", text(slopes[2]),
                            "exponents 2 and 2", near(slopes[2][0], 2) && near(slopes[2][1], 2)});
  section.claims.push_back({"Assignment 6, b.2", "Quadratic encoding, factorised over rows and columns",
                            "(not in the document)", text(slopes[3]), "exponent of N at most 1.55",
                            slopes[3][0] <= 1.55});
}

// b.1 and d.2: the scores of the engine against the completed square, with c = −‖Δ‖².
void add_scores(Section& section) {
  solve::WorkedProblem problem = solve_example("003_b_1_quadratic_scores.json").problem;
  problem.queries.clear();
  problem.expectations.clear();
  const solve::Solution solution = solve::solve(problem);
  const solve::Matrix& scores = solution.find("scores")->value;
  double alpha = 0;
  std::array<double, 2> center{};
  for (const solve::NamedMatrix& parameter : problem.heads.front().parameters) {
    if (parameter.name == "alpha") alpha = parameter.value.data[0];
    if (parameter.name == "center") center = {parameter.value.data[0], parameter.value.data[1]};
  }
  const std::int64_t columns = problem.grid[1];
  double largest = 0;
  for (std::int64_t q = 0; q < scores.rows; ++q)
    for (std::int64_t k = 0; k < scores.cols; ++k) {
      const std::int64_t rows_down = k / columns - q / columns;
      const double down = static_cast<double>(rows_down) - center[0];
      const auto right = static_cast<double>(k % columns - q % columns) - center[1];
      const double c = -(center[0] * center[0] + center[1] * center[1]);
      largest = std::max(largest, std::abs(scores(q, k) + alpha * (down * down + right * right + c)));
    }
  section.claims.push_back({"Assignment 6, d.2", "The quadratic score is −α(‖δ−Δ‖² + c)", "c = −‖Δ‖²",
                            "largest difference over all pairs " + significant(largest, 2), "at most 1e-12",
                            largest <= 1e-12});
}

}  // namespace

Section run_formulas(const Context& context) {
  Section section{"Parameters and cost", "Assignment 6, a.1, b.1, b.2, d.2"};
  section.say(
      "The document's formulas, checked against a counter and against layers that are actually built. Costs are "
      "multiply-adds, counted exactly; their growth is the slope between two large sizes.");
  add_parameters(context, section);
  add_cost(section);
  add_scores(section);
  section.add(Commands{{"rapt count --heads 9 --din 400 --dhid 400 --grid 16,16",
                        "rapt count --heads 9 --din 400 --do 400 --grid 16,16 --encoding factorised",
                        "rapt solve examples/003_b_1_quadratic_scores.json"}});
  return section;
}

}  // namespace rapt::reproduce
