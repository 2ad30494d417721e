// Discussion 8, 1.e: positional encodings, what they are and what they are for.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "layers/positions.h"
#include "pictures/bars.h"
#include "pictures/heatmap.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/training.h"

namespace rapt::reproduce {
namespace {

constexpr std::int64_t kSteps = 64;
constexpr std::int64_t kWidth = 32;

double dot_of_steps(std::int64_t a, std::int64_t b) {
  double sum = 0;
  for (std::int64_t c = 0; c < kWidth; ++c) sum += layers::sinusoid(a, c, kWidth) * layers::sinusoid(b, c, kWidth);
  return sum;
}

void add_sinusoids(Section& section) {
  pictures::HeatMap map;
  map.title = "Sinusoidal encodings of 64 steps, 32 numbers each";
  map.rows = kSteps;
  map.cols = kWidth;
  for (std::int64_t t = 0; t < kSteps; ++t)
    for (std::int64_t c = 0; c < kWidth; ++c) map.values.push_back(layers::sinusoid(t, c, kWidth));
  map.row_title = "step";
  map.col_title = "place";
  map.low = -1;
  section.show("sinusoids", draw(map),
               "PE(t): fast waves on the left, slow ones on the right; sine and cosine alternate.");

  // Against the document's formula, written out: ω = 10000^(−2k/d).
  double off_formula = 0, off_offset = 0;
  for (std::int64_t t = 0; t < kSteps; ++t)
    for (std::int64_t k = 0; k < kWidth / 2; ++k) {
      const double angle =
          static_cast<double>(t) / std::pow(10000.0, 2.0 * static_cast<double>(k) / static_cast<double>(kWidth));
      off_formula = std::max({off_formula, std::abs(layers::sinusoid(t, 2 * k, kWidth) - std::sin(angle)),
                              std::abs(layers::sinusoid(t, 2 * k + 1, kWidth) - std::cos(angle))});
    }
  // Relative positions can be read off: the product of two encodings depends on their distance alone.
  for (std::int64_t distance = 0; distance < kSteps; ++distance)
    for (std::int64_t t = 0; t + distance < kSteps; ++t)
      off_offset = std::max(off_offset, std::abs(dot_of_steps(t, t + distance) - dot_of_steps(0, distance)));
  section.claims.push_back({"Discussion 8, 1.e", "PE(t) = sin ω_k t, cos ω_k t, ω_k = 10000^(−2k/d)", "the formula",
                            "largest difference " + significant(off_formula, 2), "at most 1e-12",
                            off_formula <= 1e-12});
  const double longest = 2 * std::numbers::pi * std::pow(10000.0, 1 - 2.0 / static_cast<double>(kWidth));
  section.claims.push_back({"Discussion 8, 1.e", "Wavelengths form a geometric progression", "2π to 10000·2π",
                            "2π to " + fixed(longest / (2 * std::numbers::pi), 0) + "·2π for d = 32",
                            "towards 10000·2π as d grows", longest < 10000 * 2 * std::numbers::pi,
                            Weight::informative});
  section.claims.push_back(
      {"Discussion 8, 1.e", "They carry the relative positions", "signals to capture relative positions",
       "PE(t)·PE(t+k) differs from t to t by " + significant(off_offset, 2), "at most 1e-12", off_offset <= 1e-12});
}

std::vector<Job> positions_jobs(const Context& context) {
  std::map<std::string, std::string> options{{"model", "transformer"}, {"width", "64"},      {"inner", "128"},
                                             {"heads", "4"},           {"layers", "2"},      {"train_size", "3000"},
                                             {"valid_size", "100"},    {"test_size", "500"}, {"max_length", "20"},
                                             {"epochs", "25"},         {"rate", "0.003"},    {"dropout", "0"}};
  std::vector<std::string> kinds{"none", "one_hot", "sinusoidal", "learned", "rotary"};
  if (context.quick) {
    kinds = {"none", "sinusoidal"};
    options["epochs"] = "6";
  }
  std::vector<Job> jobs;
  for (const std::string& kind : kinds) {
    jobs.push_back({kind, "case", options});
    jobs.back().options["positions"] = kind;
  }
  return jobs;
}

}  // namespace

Section run_positions(const Context& context) {
  Section section{"Positional encodings", "Discussion 8, question 1.e; Recitation 8"};
  section.say(
      std::string(
          context.quick
              ? "The document's sinusoidal encodings, and none; without --quick also one-hot, learned and rotary ones. "
              : "One-hot and sinusoidal encodings are those of the document; learned and rotary ones "
                "are beside them. ") +
      "A small Transformer of two layers learns case conversion with each: the task copies letters in order, so it "
      "cannot be done without positions.");
  add_sinusoids(section);
  const std::vector<Trained> runs = train_all(context, "positions", positions_jobs(context));
  Table table{"Case conversion by a Transformer after " + epochs_of(runs.front()) + ", 500 held-out sentences",
              {"positions", "exact match", "symbol error", "parameters", "time"},
              {}};
  pictures::Bars bars{"Case conversion by positional encoding", "sentences right, %", {}, {{"exact match", {}}}};
  Commands commands;
  for (const Trained& run : runs) {
    table.rows.push_back({run.name, percent(run.test.get("exact_match")), percent(run.test.get("symbol_error"), 2),
                          grouped(run.parameters), duration(run.seconds)});
    bars.groups.push_back(run.name);
    bars.series[0].values.push_back(100 * run.test.get("exact_match"));
    commands.lines.push_back(run.command);
  }
  section.add(std::move(table));
  section.show("positions", draw(bars), "Without positions only the decoder's causal mask tells steps apart.");
  const double none = find(runs, "none").test.get("symbol_error"),
               sines = find(runs, "sinusoidal").test.get("symbol_error");
  section.claims.push_back({"Recitation 8; Discussion 8, 1.e", "A Transformer needs positions to keep the order",
                            "positions are added to the input",
                            "symbol error " + percent(none) + " without, " + percent(sines) + " with sinusoids",
                            "less than half the errors", sines < 0.5 * none});
  section.add(std::move(commands));
  return section;
}

}  // namespace rapt::reproduce
