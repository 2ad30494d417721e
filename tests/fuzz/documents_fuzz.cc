// JSON documents: worked problems, solved and printed, and layers to count.

#include <cstdint>
#include <string>

#include "rapt/error.h"
#include "solve/attend.h"
#include "solve/count_layer.h"
#include "solve/expect.h"
#include "solve/print.h"
#include "solve/problem.h"

namespace {

void solve(const std::string& text) {
  const auto reader = [&](const std::string& file) {
    // A file that is its own base is as bad as a missing one.
    if (file != "fuzz.json" && file != "./fuzz.json") throw rapt::Error("fuzz: no file " + file);
    return text;
  };
  const rapt::solve::WorkedProblem problem = rapt::solve::read_problem("fuzz.json", reader);
  const rapt::solve::Solution solution = rapt::solve::solve(problem);
  const auto comparisons = rapt::solve::compare(problem, solution);
  const rapt::solve::PrintOptions options{4, problem.vector_form};
  rapt::solve::print_text(problem, solution, comparisons, options);
  rapt::solve::print_markdown(problem, solution, comparisons, options);
  rapt::solve::to_json(problem, solution, comparisons, options);
}

void count(const std::string& text) {
  const nlohmann::json json =
      rapt::solve::read_json_file("count", "fuzz.json", [&](const std::string&) { return text; });
  rapt::solve::count(rapt::solve::read_layer(rapt::solve::JsonNode("count", "fuzz.json", json)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 0) solve(text);
    else count(text);
  } catch (const rapt::Error&) {
  }
  return 0;
}
