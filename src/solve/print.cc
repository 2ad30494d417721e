#include "solve/print.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "solve/numbers.h"

namespace rapt::solve {
namespace {

// Wider matrices given in the file are not repeated.
constexpr std::int64_t kMaxGivenColumns = 12;

bool is_omitted(const Step& step) { return step.kind == StepKind::given && step.value.cols > kMaxGivenColumns; }

// A format for each column: one for all of them, except in tables.
std::vector<NumberFormat> formats_of(const Step& step, int precision) {
  const Matrix& m = step.value;
  const auto cols = static_cast<std::size_t>(m.cols);
  if (step.kind != StepKind::table) {
    // What the file gives must not read as 0; in results such numbers are rounding errors.
    const double least = std::pow(10.0, -precision);
    const bool lost = step.kind == StepKind::given && std::any_of(m.data.begin(), m.data.end(), [&](double x) {
                        return x != 0 && std::abs(x) < least;
                      });
    return std::vector<NumberFormat>(cols, choose_format(m.data, precision, step.kind == StepKind::weights || lost));
  }
  std::vector<NumberFormat> result;
  const Matrix columns = transpose(m);
  for (std::int64_t j = 0; j < m.cols; ++j) result.push_back(choose_format(columns.row(j), precision, j > 0));
  return result;
}

// Names of the rows, if some are left out or labelled.
std::vector<std::string> row_names(const WorkedProblem& problem, const Step& step) {
  std::vector<std::string> names;
  if (step.rows.empty() || (problem.queries.empty() && problem.query_labels.empty())) return names;
  for (const std::int64_t row : step.rows) {
    const auto place = static_cast<std::size_t>(row);
    names.push_back(place < problem.query_labels.size() ? problem.query_labels[place]
                                                        : "query " + std::to_string(row + 1));
  }
  return names;
}

std::string table_text(const WorkedProblem& problem, const Step& step, int precision) {
  const std::vector<NumberFormat> formats = formats_of(step, precision);
  const Matrix& m = step.value;
  std::vector<std::size_t> widths;
  for (std::int64_t j = 0; j < m.cols; ++j) {
    const auto col = static_cast<std::size_t>(j);
    std::size_t width = col < step.columns.size() ? width_of(step.columns[col]) : 0;
    for (std::int64_t i = 0; i < m.rows; ++i) width = std::max(width, formats[col].text(m(i, j)).size());
    widths.push_back(width);
  }
  const std::vector<std::string> names = row_names(problem, step);
  std::size_t name_width = 0;
  for (const std::string& name : names) name_width = std::max(name_width, width_of(name));
  std::string result;
  if (!step.columns.empty()) {
    result += "  ";
    for (std::size_t j = 0; j < widths.size(); ++j) result += "  " + pad_left(step.columns[j], widths[j]);
    result += "\n";
  }
  for (std::int64_t i = 0; i < m.rows; ++i) {
    result += "  ";
    if (!names.empty()) result += "  " + pad_right(names[static_cast<std::size_t>(i)], name_width);
    for (std::size_t j = 0; j < widths.size(); ++j)
      result += "  " + pad_left(formats[j].text(m(i, static_cast<std::int64_t>(j))), widths[j]);
    result += "\n";
  }
  return result;
}

std::string step_text(const WorkedProblem& problem, const Step& step, int precision) {
  std::string head = step.symbol.text;
  if (!step.formula.text.empty()) head += (step.kind == StepKind::table ? "; " : " = ") + step.formula.text;
  if (step.kind == StepKind::count) return head + " = " + std::to_string(step.number) + "\n";
  head += "   [" + shape_text(step.value) + "]\n";
  return is_omitted(step) ? head : head + table_text(problem, step, precision);
}

std::string comparison_text(const std::vector<Comparison>& comparisons) {
  if (comparisons.empty()) return "";
  std::size_t name_width = 0;
  std::size_t printed_width = 7;
  std::size_t ours_width = 4;
  std::vector<std::string> names;
  for (const Comparison& c : comparisons) {
    names.push_back(c.id + "[" + std::to_string(c.row) + "," + std::to_string(c.col) + "]");
    name_width = std::max(name_width, width_of(names.back()));
    printed_width = std::max(printed_width, c.printed.size());
    ours_width = std::max(ours_width, c.ours.size());
  }
  std::string result = "\n== Compared with the printed numbers ==\n\n    " + std::string(name_width, ' ') + "  " +
                       pad_left("printed", printed_width) + "  " + pad_left("ours", ours_width) + "\n";
  std::size_t agreeing = 0;
  for (std::size_t n = 0; n < comparisons.size(); ++n) {
    const Comparison& c = comparisons[n];
    result += "    " + pad_right(names[n], name_width) + "  " + pad_left(c.printed, printed_width) + "  " +
              pad_left(c.ours, ours_width) + (c.agrees ? "  agrees\n" : "  DIFFERS\n");
    agreeing += c.agrees;
  }
  return result + "\n" + std::to_string(agreeing) + " of " + std::to_string(comparisons.size()) +
         " printed numbers agree.\n";
}

std::string title_of(const WorkedProblem& problem) { return problem.title.empty() ? problem.file : problem.title; }

std::string latex_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("#$%&_{}").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return "\\text{" + result + "}";
}

// Row names precede the bracket.
std::string matrix_latex(const WorkedProblem& problem, const Step& step, int precision) {
  const std::vector<NumberFormat> formats = formats_of(step, precision);
  std::string result;
  const std::vector<std::string> names = row_names(problem, step);
  for (const std::string& name : names) result += (result.empty() ? "\\begin{matrix}\n" : " \\\\\n") + latex_text(name);
  if (!names.empty()) result += "\n\\end{matrix}\n";
  result += "\\begin{bmatrix}\n";
  for (std::int64_t i = 0; i < step.value.rows; ++i) {
    for (std::int64_t j = 0; j < step.value.cols; ++j)
      result += (j ? " & " : "") + formats[static_cast<std::size_t>(j)].latex(step.value(i, j));
    result += i + 1 < step.value.rows ? " \\\\\n" : "\n";
  }
  return result + "\\end{bmatrix}";
}

std::string escaped(const std::string& cell) {
  std::string result;
  for (const char c : cell) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string table_markdown(const Step& step, int precision) {
  const std::vector<NumberFormat> formats = formats_of(step, precision);
  std::string result = "|";
  for (const std::string& column : step.columns) result += " " + escaped(column) + " |";
  result += "\n|";
  for (std::size_t j = 0; j < step.columns.size(); ++j) result += " ---: |";
  for (std::int64_t i = 0; i < step.value.rows; ++i) {
    result += "\n|";
    for (std::int64_t j = 0; j < step.value.cols; ++j)
      result += " " + formats[static_cast<std::size_t>(j)].text(step.value(i, j)) + " |";
  }
  return result + "\n";
}

std::string step_markdown(const WorkedProblem& problem, const Step& step, int precision) {
  if (step.kind == StepKind::count)
    return step.symbol.text + ": " + step.formula.text + " = **" + std::to_string(step.number) + "**\n\n";
  if (step.kind == StepKind::table)
    return step.symbol.text + "; " + step.formula.text + "\n\n" + table_markdown(step, precision) + "\n";
  std::string result = "$$\n" + step.symbol.latex;
  if (!step.formula.latex.empty()) result += " = " + step.formula.latex;
  if (is_omitted(step))
    return result + " \\in \\mathbb{R}^{" + std::to_string(step.value.rows) + " \\times " +
           std::to_string(step.value.cols) + "}\n$$\n\n";
  return result + " = " + matrix_latex(problem, step, precision) + "\n$$\n\n";
}

std::string comparison_markdown(const std::vector<Comparison>& comparisons) {
  if (comparisons.empty()) return "";
  std::string result =
      "## Compared with the printed numbers\n\n| number | printed | ours | |\n| --- | ---: | ---: | --- |\n";
  for (const Comparison& c : comparisons)
    result += "| " + escaped(c.id) + "[" + std::to_string(c.row) + "," + std::to_string(c.col) + "] | " + c.printed +
              " | " + c.ours + " | " + (c.agrees ? "agrees" : "**differs**") + " |\n";
  return result;
}

nlohmann::ordered_json rows_of(const Matrix& m) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (std::int64_t i = 0; i < m.rows; ++i) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    // JSON has no −∞: a hidden pair's score is null.
    for (const double x : m.row(i))
      row.push_back(std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json());
    result.push_back(std::move(row));
  }
  return result;
}

}  // namespace

std::string print_text(const WorkedProblem& problem, const Solution& solution,
                       const std::vector<Comparison>& comparisons, const PrintOptions& options) {
  std::string result = title_of(problem) + "\n";
  if (!problem.source.empty()) result += problem.source + "\n";
  if (!solution.notes.empty()) result += "\n";
  for (const std::string& note : solution.notes) result += "- " + note + "\n";
  std::string section;
  const auto heading = [&](const std::string& name) {
    if (name != section) result += "\n== " + name + " ==\n";
    section = name;
  };
  for (const Step& step : solution.steps) {
    if (options.vectors && step.kind != StepKind::given) continue;
    heading(step.section);
    result += "\n" + step_text(problem, step, options.precision);
  }
  if (options.vectors)
    for (const VectorLine& line : vector_lines(problem, solution, options.precision)) {
      if (line.section != section) heading(line.section), result += "\n";
      result += "  " + line.left.text;
      for (const Notation& part : line.parts) result += " = " + part.text;
      result += "\n";
    }
  return result + comparison_text(comparisons);
}

std::string print_markdown(const WorkedProblem& problem, const Solution& solution,
                           const std::vector<Comparison>& comparisons, const PrintOptions& options) {
  std::string result = "# " + title_of(problem) + "\n\n";
  if (!problem.source.empty()) result += problem.source + "\n\n";
  for (const std::string& note : solution.notes) result += "- " + note + "\n";
  if (!solution.notes.empty()) result += "\n";
  std::string section;
  const auto heading = [&](const std::string& name) {
    if (name != section) result += "## " + name + "\n\n";
    section = name;
  };
  for (const Step& step : solution.steps) {
    if (options.vectors && step.kind != StepKind::given) continue;
    heading(step.section);
    result += step_markdown(problem, step, options.precision);
  }
  if (options.vectors)
    for (const VectorLine& line : vector_lines(problem, solution, options.precision)) {
      heading(line.section);
      result += "$$" + line.left.latex;
      for (const Notation& part : line.parts) result += " = " + part.latex;
      result += "$$\n\n";
    }
  return result + comparison_markdown(comparisons);
}

nlohmann::ordered_json to_json(const WorkedProblem& problem, const Solution& solution,
                               const std::vector<Comparison>& comparisons, const PrintOptions& options) {
  nlohmann::ordered_json result;
  result["title"] = problem.title;
  result["source"] = problem.source;
  result["notes"] = solution.notes;
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const Step& step : solution.steps) {
    nlohmann::ordered_json entry{
        {"id", step.id}, {"section", step.section}, {"symbol", step.symbol.text}, {"formula", step.formula.text}};
    if (step.kind == StepKind::count) {
      values[step.id] = step.number;
    } else {
      entry["shape"] = {step.value.rows, step.value.cols};
      if (!step.columns.empty()) entry["columns"] = step.columns;
      if (!step.rows.empty()) {
        std::vector<std::int64_t> queries = step.rows;
        for (std::int64_t& query : queries) ++query;
        entry["queries"] = queries;
      }
      values[step.id] = rows_of(step.value);
    }
    steps.push_back(std::move(entry));
  }
  result["steps"] = std::move(steps);
  result["values"] = std::move(values);
  if (options.vectors) {
    nlohmann::ordered_json lines = nlohmann::ordered_json::array();
    for (const VectorLine& line : vector_lines(problem, solution, options.precision)) {
      std::string text = line.left.text;
      for (const Notation& part : line.parts) text += " = " + part.text;
      lines.push_back(std::move(text));
    }
    result["vectors"] = std::move(lines);
  }
  if (!comparisons.empty()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Comparison& c : comparisons) {
      nlohmann::ordered_json ours = std::isfinite(c.value) ? nlohmann::ordered_json(c.value) : nlohmann::ordered_json();
      list.push_back({{"id", c.id},
                      {"row", c.row},
                      {"column", c.col},
                      {"printed", c.printed},
                      {"ours", ours},
                      {"agrees", c.agrees}});
    }
    result["expect"] = std::move(list);
    result["agrees"] = all_agree(comparisons);
  }
  return result;
}

}  // namespace rapt::solve
