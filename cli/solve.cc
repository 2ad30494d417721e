#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/verbs.h"
#include "solve/picture.h"
#include "solve/print.h"
#include "tensor/files.h"

namespace rapt::cli {
namespace {

constexpr const char* kSolveFooter =
    "docs/solve.md describes the file. Exit status 1: a number in its \"expect\" does not agree.\n"
    "\n"
    "Examples:\n"
    "  rapt solve examples/001_1_2_one_head.json\n"
    "  rapt solve examples/001_1_3_two_heads.json --markdown --precision 4\n"
    "  rapt solve examples/004_c_argmax.json --vectors\n"
    "  rapt solve examples/003_d_1_large_alpha.json --plot pictures";

struct SolveArguments {
  std::string file;
  std::string plot;
  std::string precision;
  bool json = false;
  bool markdown = false;
  bool vectors = false;
};

int precision_of(const SolveArguments& arguments, const solve::WorkedProblem& problem) {
  if (arguments.precision.empty()) return problem.precision.value_or(8);
  constexpr const char* kExpected = "a number of digits from 0 to 17";
  const std::int64_t digits = parse_integers("solve: --precision", arguments.precision, kExpected, 1).front();
  if (digits < 0 || digits > 17) refuse("solve: --precision", arguments.precision, kExpected);
  return static_cast<int>(digits);
}

// All pictures are written, or none.
std::vector<std::string> write_plots(const std::string& directory, const solve::WorkedProblem& problem,
                                     const solve::Solution& solution) {
  if (solution.maps.empty())
    throw Error("solve: --plot: expected an example with an attention map, got " + problem.file + ", which has none");
  StagedFiles files;
  files.make_directory(directory);
  std::vector<std::string> names;
  const std::string stem = std::filesystem::path(problem.file).stem().string();
  for (const solve::AttentionMap& map : solution.maps) {
    names.push_back((std::filesystem::path(directory) / (stem + "_" + map.name + ".svg")).string());
    files.add(names.back(), pictures::to_svg(draw(solve::picture_of(problem, map))));
  }
  files.commit();
  return names;
}

void run_solve(const SolveArguments& arguments) {
  if (arguments.json && arguments.markdown) throw Error("solve: expected --json or --markdown, got both");
  if (!arguments.plot.empty()) check_output_directory("solve: --plot", arguments.plot);
  const solve::WorkedProblem problem = solve::read_problem(arguments.file);
  const solve::PrintOptions options{precision_of(arguments, problem), arguments.vectors || problem.vector_form};
  const solve::Solution solution = solve::solve(problem);
  const std::vector<solve::Comparison> comparisons = solve::compare(problem, solution);
  std::string text;
  nlohmann::ordered_json page;
  if (arguments.json) page = solve::to_json(problem, solution, comparisons, options);
  else if (arguments.markdown) text = solve::print_markdown(problem, solution, comparisons, options);
  else text = solve::print_text(problem, solution, comparisons, options);

  std::vector<std::string> plots;
  if (!arguments.plot.empty()) plots = write_plots(arguments.plot, problem, solution);
  if (arguments.json) {
    if (!plots.empty()) page["plots"] = plots;
    // The name of a file need not be UTF-8.
    text = page.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  std::cout << text;
  if (!arguments.json)
    for (const std::string& name : plots) std::cerr << "wrote " << one_line(name) << "\n";
  if (!solve::all_agree(comparisons)) throw ExitStatus{1};
}

}  // namespace

void add_solve(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("solve", "A worked example, every intermediate printed");
  auto arguments = std::make_shared<SolveArguments>();
  const auto option = [&](const char* name, std::string& to, const char* type, const char* help) {
    return verb->add_option(name, to, help)->type_name(type)->check(value_given());
  };
  option("FILE.json", arguments->file, "", "The example (docs/solve.md)")->required();
  option("--plot", arguments->plot, "DIR", "Write each head's attention map to this directory, as SVG");
  option("--precision", arguments->precision, "N", "Digits after the point [as the file says, else 8]");
  verb->add_flag("--json", arguments->json, "Print JSON, all digits");
  verb->add_flag("--markdown", arguments->markdown, "Print Markdown with LaTeX matrices");
  verb->add_flag("--vectors", arguments->vectors, "Write e_ij, a_ij and z_i one by one, with no matrix product");
  verb->footer(kSolveFooter);
  verb->callback([arguments] { run_solve(*arguments); });
}

}  // namespace rapt::cli
