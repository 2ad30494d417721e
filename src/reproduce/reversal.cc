// Practical 10, programming: strings backwards by an LSTM encoder-decoder, with and without attention.
#include <algorithm>
#include <cmath>

#include "pictures/curves.h"
#include "pictures/heatmap.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/training.h"

namespace rapt::reproduce {
namespace {

constexpr const char* kReversalGroup = "reversal";
constexpr const char* kString = "abacadabacc";  // the document's own

std::vector<Job> reversal_jobs(const Context& context) {
  std::vector<std::string> attentions{"none", "dot"};
  if (!context.quick)
    for (const char* name : {"scaled_dot", "bilinear", "additive", "cosine", "distance", "alibi", "t5", "shaw",
                             "transformer_xl", "argmax"})
      attentions.emplace_back(name);
  std::vector<Job> jobs;
  for (const std::string& attention : attentions) {
    Job job{attention, "reverse", {{"attention", attention}}};
    if (context.quick) job.options["epochs"] = "12";
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// How the places that rows look at most lie to the anti-diagonal: the last letter for the first row, and so on.
struct Line {
  std::int64_t on = 0;     // rows on it
  std::int64_t along = 0;  // rows at most one letter beside it
  double correlation = 0;  // of row and place; −1 on the anti-diagonal
};

Line anti_diagonal(const Answer& answer) {
  Line line;
  const std::size_t keys = answer.source.size(), rows = std::min(answer.target.size(), keys);
  double xy = 0, xx = 0, yy = 0;
  const double middle_row = 0.5 * static_cast<double>(rows - 1);
  std::vector<double> places;
  for (std::size_t t = 0; t < rows; ++t) {
    const float* row = answer.weights.data() + t * keys;
    places.push_back(static_cast<double>(std::max_element(row, row + keys) - row));
    const double beside = std::abs(places.back() - static_cast<double>(keys - 1 - t));
    line.on += beside == 0 ? 1 : 0;
    line.along += beside <= 1 ? 1 : 0;
  }
  double middle = 0;
  for (const double place : places) middle += place / static_cast<double>(rows);
  for (std::size_t t = 0; t < rows; ++t) {
    const double x = static_cast<double>(t) - middle_row, y = places[t] - middle;
    xy += x * y, xx += x * x, yy += y * y;
  }
  line.correlation = yy > 0 ? xy / std::sqrt(xx * yy) : 0;
  return line;
}

void add_map(const Trained& dot, Section& section) {
  const Answer answer = decode(dot, kString);
  std::vector<std::string> rows = answer.target;
  rows.emplace_back("<end>");
  section.show("reversal_map",
               pictures::heat_map(answer.weights, answer.source, rows, "Attention while reversing abacadabacc"),
               "Rows are the letters written, columns the letters read; the model with dot products answers “" +
                   answer.text + "”.");
  section.say(
      "A recurrent encoder's state also remembers earlier letters, so a model may attend to a neighbour of the letter "
      "that it writes: the line may be shifted by a step, and often is.");
  const auto letters = static_cast<std::int64_t>(answer.source.size());
  const Line line = anti_diagonal(answer);
  section.claims.push_back({"Practical 10, program 3", "The attention plot of abacadabacc runs along the anti-diagonal",
                            "diagonal, in reverse order",
                            of(line.along, letters) + " rows within one letter of it (" + std::to_string(line.on) +
                                " on it), correlation " + fixed(line.correlation, 2),
                            "at least 9 rows within one letter, correlation below −0.9",
                            line.along >= 9 && line.correlation < -0.9});
}

}  // namespace

Section run_reversal(const Context& context) {
  Section section{"Reversal, with and without attention", "Practical 10, programming"};
  const std::vector<Trained> runs = train_all(context, kReversalGroup, reversal_jobs(context));
  const std::string epochs = epochs_of(runs.front());
  section.say(
      "Strings of 3 to 18 letters over a, b, c, d are written backwards: 5,000 to train on, 500 to validate, 1,000 to "
      "test, all different. An LSTM of 64 units, embeddings of 64 numbers, Adam at 0.003 on a cosine schedule, " +
      epochs +
      (context.quick ? " in this quick run, 30 in the document; without --quick ten other mechanisms too" : "") +
      ". The document does not give its settings, so exact figures cannot be expected; what must hold is the "
      "contrast.");
  Table table{"Exact match: the share of strings that are right as a whole, after " + epochs,
              {"attention", "validation", "test", "symbol error", "parameters", "best epoch", "time"},
              {}};
  Commands commands;
  for (const Trained& run : runs) {
    table.rows.push_back({run.name, percent(run.valid.get("exact_match")), percent(run.test.get("exact_match")),
                          percent(run.test.get("symbol_error"), 2), grouped(run.parameters),
                          std::to_string(run.best_epoch), duration(run.seconds)});
    commands.lines.push_back(run.command);
  }
  section.add(std::move(table));
  section.show("reversal_curves",
               draw(pictures::Curves{"Reversal: exact match in validation", "epoch", "share of strings",
                                     validation_series(runs, "exact_match")}),
               "Validation after each epoch.");
  const double none = find(runs, "none").valid.get("exact_match");
  const double dot = find(runs, "dot").valid.get("exact_match");
  const Weight by_settings = context.quick ? Weight::informative : Weight::must_hold;
  section.claims.push_back(
      {"Practical 10, program 1", "Without attention, validation accuracy", "82.1 % after 30 epochs",
       percent(none) + " after " + epochs, "within 5 points (settings are not given)", std::abs(none - 0.821) <= 0.05,
       Weight::informative,
       context.quick ? "This quick run trained " + epochs +
                           ", the document 30; rapt reproduce reversal, without --quick, trains 30, and "
                           "docs/reproduce.md has its figures."
                     : "The document gives neither the width of its LSTM nor its learning rate; ours "
                       "are in the text."});
  section.claims.push_back({"Practical 10, program 2", "With dot-product attention", "99.9 %",
                            percent(dot) + " after " + epochs, "at least 99 %", dot >= 0.99, by_settings,
                            context.quick ? "This quick run trained " + epochs + ", the document 30." : ""});
  section.claims.push_back(
      {"Practical 10, program 2", "Attention essentially solves the task; without it the model fails on long strings",
       "+17.8 points", "+" + fixed(100 * (dot - none), 1) + " points", "at least 10 points more", dot - none >= 0.10});
  if (!context.quick) {
    std::int64_t solved = 0, asked = 0;
    for (const Trained& run : runs) {
      if (run.name == "none" || run.name == "argmax") continue;
      ++asked;
      solved += run.valid.get("exact_match") >= 0.99 ? 1 : 0;
    }
    section.claims.push_back({"Recitation 8", "The variations (bilinear, additive, scaled, …) do as well",
                              "works well in practice", of(solved, asked) + " mechanisms reach 99 %", "all of them",
                              solved == asked});
  }
  add_map(find(runs, "dot"), section);
  commands.lines.push_back(std::string("rapt decode runs/reversal/dot ") + kString + " --plot map.svg");
  section.add(std::move(commands));
  return section;
}

}  // namespace rapt::reproduce
