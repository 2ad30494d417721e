#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "solve/attend.h"
#include "solve/problem.h"

namespace rapt::solve {

// A name or a formula, for a terminal and for LaTeX.
struct Notation {
  std::string text;
  std::string latex;
};

enum class StepKind : std::uint8_t {
  given,  // from the file
  result,
  weights,  // numbers that may be very small and still matter
  table,    // columns of different things
  count,    // one integer
};

struct Step {
  std::string id;       // what "expect" and the JSON output call it
  std::string section;  // its heading
  Notation symbol;
  Notation formula;
  Matrix value;
  StepKind kind = StepKind::result;
  std::vector<std::int64_t> rows = {};    // which query each row belongs to, from 0; empty: all in order
  std::vector<std::string> columns = {};  // headings of a table
  std::int64_t number = 0;                // of a count
};

// A picture for --plot.
struct AttentionMap {
  std::string name;  // part of the file's name
  std::string title;
  Matrix weights;
  std::vector<std::int64_t> rows;
};

// The inputs of the per-vector form; all rows.
struct HeadVectors {
  std::size_t head = 0;
  std::string q, k, v;  // "q", or the input's name if there is no projection
  HeadInputs inputs;
  HeadResult result;
};

struct Solution {
  std::vector<std::string> notes;
  std::vector<Step> steps;
  std::vector<AttentionMap> maps;
  std::vector<HeadVectors> vectors;
  Matrix result;  // all rows, after W_O
  std::optional<LayerCount> count;

  const Step* find(const std::string& id) const;
};

Solution solve(const WorkedProblem& problem);

// Parts of solve().
void solve_attention(const WorkedProblem& problem, Solution& solution);
void solve_shared(const WorkedProblem& problem, Solution& solution);
void solve_limit(const WorkedProblem& problem, Solution& solution);

// The steps from scores to weights, common to all kinds of problem.
void add_weights(const WorkedProblem& problem, std::size_t head, const HeadResult& result, const Notation& product,
                 Solution& solution);
std::vector<std::int64_t> shown_rows(const WorkedProblem& problem, std::int64_t count);
// The formula of a score that is not a product: its name, and its text in `rapt list`.
Notation score_notation(const MechanismInfo& mechanism, const Notation& q, const Notation& k);
Notation with_head(const Notation& symbol, std::size_t head, std::size_t heads);
std::string head_suffix(std::size_t head, std::size_t heads);  // "_1", or nothing for the only head
std::string head_section(std::size_t head, std::size_t heads);

}  // namespace rapt::solve
