#include "solve/steps.h"

// MulT's shared attention: q = k = W_qk x_s; one map of weights serves the values of every task.
namespace rapt::solve {
namespace {

std::string listed(const std::vector<Shared::Task>& tasks, const std::string& prefix) {
  std::string result;
  for (const Shared::Task& task : tasks) result += (result.empty() ? "" : ", ") + prefix + task.name;
  return result;
}

Matrix input_of(const Shared& shared, const Matrix& given, const std::string& name, Solution& solution) {
  const Notation symbol{name, name.substr(0, 1) + "_{" + name.substr(2) + "}"};
  if (!shared.standardize_inputs) {
    solution.steps.push_back({name, "Given", symbol, {}, given, StepKind::given});
    return given;
  }
  Matrix result = standardize(given);
  solution.steps.push_back(
      {name, "Normalised inputs", symbol, {"(x − mean) / std", "(x - \\bar{x}) / \\sigma"}, result});
  return result;
}

}  // namespace

void solve_shared(const WorkedProblem& problem, Solution& solution) {
  const Shared& shared = *problem.shared;
  const std::size_t heads = problem.heads.size();
  const std::string positions = std::to_string(shared.skip.rows);
  solution.notes.push_back("the projections of each head, W_qk, " + listed(shared.tasks, "W_v") + ": " + positions +
                           " × " + positions);
  for (const Shared::Task& task : shared.tasks)
    if (!task.output.empty())
      solution.notes.push_back("the projection of the joined heads, W_" + task.name + ": " +
                               std::to_string(task.output.rows) + " × " + std::to_string(task.output.cols));

  const Matrix skip = input_of(shared, shared.skip, "x_s", solution);
  std::vector<Matrix> inputs;
  for (const Shared::Task& task : shared.tasks)
    inputs.push_back(input_of(shared, task.input, "x_" + task.name, solution));

  const std::vector<std::int64_t> rows = shown_rows(problem, skip.rows);
  std::vector<std::vector<Matrix>> outputs(shared.tasks.size());
  for (std::size_t h = 0; h < heads; ++h) {
    const ProblemHead& head = problem.heads[h];
    const std::string section = head_section(h, heads);
    const std::string suffix = head_suffix(h, heads);
    HeadInputs arrays;
    arrays.q = arrays.k = multiply(head.shared_map, skip);
    solution.steps.push_back({"q" + suffix, section, {"q = k", "q = k"}, {"W_qk x_s", "W_{qk} x_s"}, arrays.q});
    for (std::size_t n = 0; n < shared.tasks.size(); ++n) {
      const std::string& name = shared.tasks[n].name;
      arrays.v.push_back(multiply(head.value_maps[n], inputs[n]));
      solution.steps.push_back({"v_" + name + suffix,
                                section,
                                {"v_" + name, "v_{" + name + "}"},
                                {"W_v" + name + " x_" + name, "W_{v" + name + "} x_{" + name + "}"},
                                arrays.v.back()});
    }
    const HeadResult result = attend_head(problem, head, arrays, problem.scale);
    Notation product{"q kᵀ", "q k^\\top"};
    if (problem.mechanism->scaled() && !problem.scale)
      product = {"q kᵀ / √" + std::to_string(skip.cols),
                 "\\frac{q k^\\top}{\\sqrt{" + std::to_string(skip.cols) + "}}"};
    else if (problem.mechanism->name() != "dot" && !problem.mechanism->scaled())
      product = score_notation(*problem.mechanism, {"q", "q"}, {"k", "k"});
    add_weights(problem, h, result, product, solution);
    for (std::size_t n = 0; n < shared.tasks.size(); ++n) {
      const std::string& name = shared.tasks[n].name;
      solution.steps.push_back({"out_" + name + suffix,
                                section,
                                {"x_" + name + "'", "x_{" + name + "}'"},
                                {"P v_" + name, "P v_{" + name + "}"},
                                take_rows(result.out[n], rows),
                                StepKind::result,
                                rows});
      outputs[n].push_back(result.out[n]);
    }
    solution.maps.push_back(
        {"head_" + std::to_string(h), "head " + std::to_string(h), take_rows(result.weights, rows), rows});
  }

  for (std::size_t n = 0; n < shared.tasks.size(); ++n) {
    const Shared::Task& task = shared.tasks[n];
    const std::string section = "Result for task " + task.name;
    const auto step = [&](const std::string& id, const Notation& symbol, const Notation& formula, const Matrix& m) {
      solution.steps.push_back({id, section, symbol, formula, take_rows(m, rows), StepKind::result, rows});
    };
    const std::string joined = "X_" + task.name;
    Matrix result = join_columns(outputs[n]);
    step(joined, {joined, "X_{" + task.name + "}"},
         {"the heads side by side", "[x'^{(0)}, \\dots, x'^{(" + std::to_string(heads - 1) + ")}]"}, result);
    Notation formula{joined, "X_{" + task.name + "}"};
    if (!task.output.empty()) {
      result = multiply(result, task.output);
      formula = {joined + " W_" + task.name, formula.latex + " W_{" + task.name + "}"};
      step("linear_" + task.name, {"linear", "\\text{linear}"}, formula, result);
    }
    if (problem.residual) {
      result = add(result, inputs[n]);
      formula = {formula.text + " + x_" + task.name, formula.latex + " + x_{" + task.name + "}"};
    }
    if (task.output.empty() && !problem.residual) continue;
    step("y_" + task.name, {"y_" + task.name, "y_{" + task.name + "}"}, formula, result);
  }
}

}  // namespace rapt::solve
