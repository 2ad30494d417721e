#include "solve/expect.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::solve {
namespace {

// Digits after the point, and the exponent: 4.79433566e-05 has 8 and −5.
PrintedNumber read_number(const JsonNode& node, const std::string& text) {
  PrintedNumber result{text, 0, 0};
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, result.value);
  if (error != std::errc() || end != last || std::isnan(result.value))
    node.fail("expected a number, got \"" + text + "\"");
  if (std::isinf(result.value)) return result;
  const std::size_t exponent_at = text.find_first_of("eE");
  const std::size_t point = text.find('.');
  if (point == std::string::npos && exponent_at == std::string::npos) {
    // An integer is exact.
    result.tolerance = 1e-9 * std::max(1.0, std::abs(result.value));
    return result;
  }
  const std::size_t mantissa_end = exponent_at == std::string::npos ? text.size() : exponent_at;
  int power = point == std::string::npos ? 0 : -static_cast<int>(mantissa_end - point - 1);
  if (exponent_at != std::string::npos) {
    int exponent = 0;
    const std::size_t digits = exponent_at + (text[exponent_at + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + digits, last, exponent);
    power += exponent;
  }
  // Half a unit of the last digit, with a tolerance for numbers exactly halfway.
  result.tolerance =
      0.5 * std::pow(10.0, power) * (1 + 1e-6) + 4 * std::numeric_limits<double>::epsilon() * std::abs(result.value);
  return result;
}

std::vector<PrintedNumber> read_row(const JsonNode& node) {
  std::vector<PrintedNumber> row;
  if (node.value().is_string()) {
    std::istringstream words(node.text());
    for (std::string word; words >> word;) row.push_back(read_number(node, word));
    if (row.empty()) node.fail("expected at least one number, got none");
  } else if (node.value().is_number()) {
    row.push_back(read_number(node, node.value().dump()));
  } else {
    for (const JsonNode& item : node.items()) {
      if (item.value().is_array()) item.fail("expected a number, got a list");
      for (PrintedNumber& number : read_row(item)) row.push_back(std::move(number));
    }
  }
  return row;
}

[[noreturn]] void fail(const WorkedProblem& problem, const std::string& id, const std::string& what) {
  throw Error("solve: " + problem.file + ": expect." + id + ": " + what);
}

Comparison compare_number(const Step& step, const PrintedNumber& printed, std::int64_t row, std::int64_t col,
                          double ours) {
  Comparison result{step.id, (step.rows.empty() ? row : step.rows[static_cast<std::size_t>(row)]) + 1,
                    col + 1, printed.text,
                    "",      ours,
                    false};
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, ours, std::chars_format::general, 12).ptr;
  result.ours.assign(text, end);
  result.agrees = ours == printed.value || std::abs(ours - printed.value) <= printed.tolerance;
  return result;
}

Comparison compare_count(const WorkedProblem& problem, const Step& step, const Expectation& expectation) {
  if (expectation.rows.size() != 1 || expectation.rows[0].size() != 1)
    fail(problem, step.id, "expected one integer, got several numbers");
  const PrintedNumber& printed = expectation.rows[0][0];
  const std::string ours = std::to_string(step.number);
  const double number = static_cast<double>(step.number);
  const bool exact = std::abs(printed.value) < 0x1p53 ? printed.value == number : printed.text == ours;
  return {step.id, 1, 1, printed.text, ours, number, exact};
}

void compare_step(const WorkedProblem& problem, const Step& step, const Expectation& expectation,
                  std::vector<Comparison>& result) {
  if (step.kind == StepKind::count) {
    result.push_back(compare_count(problem, step, expectation));
    return;
  }
  const Matrix& m = step.value;
  auto rows = static_cast<std::int64_t>(expectation.rows.size());
  auto cols = static_cast<std::int64_t>(expectation.rows.front().size());
  std::vector<PrintedNumber> numbers;
  for (const auto& row : expectation.rows) numbers.insert(numbers.end(), row.begin(), row.end());
  // A list of numbers may be a column.
  if (rows == 1 && m.cols == 1 && cols == m.rows) std::swap(rows, cols);
  if (rows != m.rows || cols != m.cols)
    fail(problem, expectation.id,
         "expected " + std::to_string(m.rows) + " × " + std::to_string(m.cols) + " numbers, as the step has, got " +
             std::to_string(rows) + " × " + std::to_string(cols));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j)
      result.push_back(compare_number(step, numbers[m.place(i, j)], i, j, m(i, j)));
}

}  // namespace

std::vector<Expectation> read_expectations(const JsonNode& node) {
  node.require_object();
  std::vector<Expectation> result;
  for (const auto& [id, unused] : node.value().items()) {
    const JsonNode value = node.at(id);
    Expectation expectation{id, {}};
    const bool matrix = value.value().is_array() && !value.value().empty() && !value.value().front().is_number();
    if (matrix)
      for (const JsonNode& row : value.items()) expectation.rows.push_back(read_row(row));
    else expectation.rows.push_back(read_row(value));
    for (const auto& row : expectation.rows)
      if (row.size() != expectation.rows.front().size())
        value.fail("expected rows of equal length, got " + std::to_string(expectation.rows.front().size()) + " and " +
                   counted(row.size(), "number"));
    result.push_back(std::move(expectation));
  }
  return result;
}

std::vector<Comparison> compare(const WorkedProblem& problem, const Solution& solution) {
  for (const Expectation& expectation : problem.expectations)
    if (!solution.find(expectation.id)) {
      std::string known;
      for (const Step& step : solution.steps) known += (known.empty() ? "" : ", ") + step.id;
      fail(problem, expectation.id, "expected one of the steps " + known + ", got '" + expectation.id + "'");
    }
  std::vector<Comparison> result;
  for (const Step& step : solution.steps)
    for (const Expectation& expectation : problem.expectations)
      if (expectation.id == step.id) compare_step(problem, step, expectation, result);
  return result;
}

bool all_agree(const std::vector<Comparison>& comparisons) {
  for (const Comparison& c : comparisons)
    if (!c.agrees) return false;
  return true;
}

}  // namespace rapt::solve
