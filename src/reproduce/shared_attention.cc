// MulT: one attention map from the skip connection serves the values of two tasks.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "pictures/heatmap_grid.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/worked.h"
#include "solve/picture.h"

namespace rapt::reproduce {
namespace {

constexpr std::size_t kHeads = 6;  // M of the document

// The result of a task as the document draws it: 4 × 4 positions with their numbers.
pictures::Drawing block_picture(const Worked& worked, const std::string& id, const std::string& title) {
  const solve::Step* step = worked.solution.find(id);
  pictures::HeatMap map;
  map.title = title;
  map.rows = map.cols = std::lround(std::sqrt(static_cast<double>(step->value.data.size())));
  map.values = step->value.data;
  map.row_title = "row";
  map.col_title = "column";
  map.numbers = pictures::CellNumbers::always;
  std::tie(map.low, map.high) = pictures::color_range(map.values);
  return draw(map);
}

Picture heads_picture(const Worked& worked, const std::string& name, const std::string& caption) {
  pictures::HeatMapGrid grid;
  grid.title = "Attention maps of the six heads, 16 × 16 positions";
  grid.cols = 3;
  double high = 0;
  for (const solve::AttentionMap& map : worked.solution.maps) {
    grid.maps.push_back(solve::picture_of(worked.problem, map));
    grid.maps.back().title = map.title;
    grid.maps.back().numbers = pictures::CellNumbers::never;
    high = std::max(high, *std::max_element(map.weights.data.begin(), map.weights.data.end()));
  }
  grid.high = high;
  Picture picture{name, draw(grid), caption};
  if (picture.drawing.description.empty()) picture.drawing.description = caption;
  return picture;
}

double largest_change(const solve::Solution& a, const solve::Solution& b) {
  double largest = 0;
  for (const char* id : {"y_t", "y_r"}) {
    const std::vector<double>& x = a.find(id)->value.data;
    const std::vector<double>& y = b.find(id)->value.data;
    for (std::size_t n = 0; n < x.size(); ++n) largest = std::max(largest, std::abs(x[n] - y[n]));
  }
  return largest;
}

// B of the document is one random number, added to every score.
double change_by_scalar_bias(const Worked& worked, double bias) {
  solve::WorkedProblem problem = worked.problem;
  for (solve::ProblemHead& head : problem.heads) head.bias = solve::Matrix(1, problem.k.rows, bias);
  return largest_change(solve::solve(problem), worked.solution);
}

// How far the sums of the weights are from 1, along rows and along columns.
struct Sums {
  double rows = 0, columns = 0;
};
Sums sums_off_one(const solve::Solution& solution) {
  Sums off;
  for (const solve::AttentionMap& map : solution.maps) {
    const solve::Matrix transposed = solve::transpose(map.weights);
    const auto worst = [](const solve::Matrix& m, double& target) {
      for (std::int64_t i = 0; i < m.rows; ++i) {
        double sum = 0;
        for (const double x : m.row(i)) sum += x;
        target = std::max(target, std::abs(sum - 1));
      }
    };
    worst(map.weights, off.rows);
    worst(transposed, off.columns);
  }
  return off;
}

std::string sizes_of(const solve::Matrix& m) { return std::to_string(m.rows) + " × " + std::to_string(m.cols); }

}  // namespace

Section run_shared_attention(const Context& context) {
  Section section{"Shared attention (MulT)", "MulT"};
  section.say(
      "Queries and keys come from the skip connection x_s alone, so one attention map per head serves the values of "
      "both tasks. The document's softmax helper normalises columns, whereas attention normalises each query's row: "
      "both are computed. The document's weights are random; the example's were drawn once and are stored in its "
      "file.");
  context.progress(0, 2, "rows");
  const Worked rows = solve_example("000_shared_attention.json");
  context.progress(1, 2, "columns");
  const Worked columns = solve_example("000_shared_attention_columns.json");
  section.add(Commands{{"rapt solve " + rows.file, "rapt solve " + columns.file}});
  section.claims.push_back(comparison_claim(rows));
  section.claims.push_back(comparison_claim(columns));

  const solve::ProblemHead& head = rows.problem.heads.front();
  const std::string projections = sizes_of(head.shared_map) + ", " + sizes_of(head.value_maps[0]);
  section.claims.push_back({"MulT, 1.2", "Projections of each head", "16 × 16", projections, "the same sizes",
                            head.shared_map.rows == 16 && head.shared_map.cols == 16 && head.value_maps[0].rows == 16 &&
                                head.value_maps[0].cols == 16 && rows.problem.heads.size() == kHeads});
  const solve::Matrix& output = rows.problem.shared->tasks.front().output;
  section.claims.push_back({"MulT, 1.2", "Projection of the joined heads", "6 × 1", sizes_of(output), "the same size",
                            output.rows == 6 && output.cols == 1});

  const Sums by_row = sums_off_one(rows.solution), by_column = sums_off_one(columns.solution);
  section.claims.push_back(
      {"MulT, 2", "softmax(axis=0) normalises columns, not the rows of queries", "columns sum to 1",
       "columns off by " + significant(by_column.columns, 2) + ", rows by " + significant(by_column.rows, 2),
       "columns within 1e-12, rows not", by_column.columns < 1e-12 && by_column.rows > 1e-3});
  const double change = change_by_scalar_bias(rows, 0.75);
  section.claims.push_back({"MulT, 4", "A scalar bias B is added to all scores", "B uniform in 0…1",
                            "changes the outputs by " + significant(change, 2), "no change under softmax, to rounding",
                            change < 1e-10});

  section.add(
      Table{"How far sums of weights are from 1",
            {"normalised over", "rows", "columns"},
            {{"rows (attention)", significant(by_row.rows, 2), significant(by_row.columns, 2)},
             {"columns (the document's helper)", significant(by_column.rows, 2), significant(by_column.columns, 2)}}});
  for (const char* id : {"y_t", "y_r"}) {
    section.show(std::string("shared_") + id, block_picture(rows, id, std::string(id) + ", softmax along rows"),
                 std::string(id) + " of the block, with the softmax along the rows of queries.");
    section.show(std::string("shared_columns_") + id,
                 block_picture(columns, id, std::string(id) + ", softmax down columns"),
                 std::string(id) + " of the block, with the softmax down the columns, as the document computes it.");
  }
  section.add(heads_picture(rows, "shared_heads", "One map for each head, used by both tasks; softmax along rows."));
  section.add(comparison_table(rows));
  section.add(comparison_table(columns));
  context.progress(2, 2);
  return section;
}

}  // namespace rapt::reproduce
