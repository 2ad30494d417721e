#include "solve/picture.h"

#include <filesystem>

namespace rapt::solve {
namespace {

std::vector<std::string> labels_of(const std::vector<std::string>& labels, const std::vector<std::int64_t>& rows) {
  std::vector<std::string> result;
  for (const std::int64_t row : rows)
    result.push_back(labels.empty() ? std::to_string(row + 1) : labels[static_cast<std::size_t>(row)]);
  return result;
}

}  // namespace

pictures::HeatMap picture_of(const WorkedProblem& problem, const AttentionMap& map) {
  pictures::HeatMap picture;
  picture.title = (problem.title.empty() ? std::filesystem::path(problem.file).stem().string() : problem.title) +
                  (map.title.empty() ? "" : ", " + map.title);
  picture.rows = map.weights.rows;
  picture.cols = map.weights.cols;
  picture.values = map.weights.data;
  picture.row_labels = labels_of(problem.query_labels, map.rows);
  picture.col_labels = problem.key_labels;
  picture.row_title = "query";
  picture.col_title = "key";
  picture.low = 0;
  picture.high = 1;
  return picture;
}

}  // namespace rapt::solve
