// Discussion 8, question 1: upper and lower case by a recurrent encoder-decoder; one vector is a bottleneck, attention is none.
#include <algorithm>

#include "pictures/curves.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/training.h"
#include "tasks/sequence_run.h"

namespace rapt::reproduce {
namespace {

constexpr const char* kCaseGroup = "case";
constexpr const char* kSentence = "<U> I am a student";  // the document's own

std::vector<Job> case_jobs(const Context& context) {
  std::map<std::string, std::string> options{{"hidden", "128"}, {"rate", "0.003"}, {"epochs", "12"}};
  if (context.quick)
    options = {{"hidden", "64"},      {"rate", "0.005"},    {"epochs", "8"},     {"train_size", "4000"},
               {"valid_size", "200"}, {"test_size", "500"}, {"max_length", "24"}};
  std::vector<Job> jobs;
  for (const char* attention : {"none", "dot"}) {
    jobs.push_back({attention, "case", options});
    jobs.back().options["attention"] = attention;
  }
  return jobs;
}

struct Bucket {
  std::size_t low = 0, high = 0;  // of source tokens
  std::int64_t sentences = 0;
  double exact = 0;
};

struct ByLength {
  std::vector<Bucket> buckets;
  Bucket longest;  // the longest quarter: the last bucket may hold a handful
};

ByLength by_length(const Context& context, const Trained& trained) {
  tasks::SequenceRun run = tasks::load_sequence_run(trained.run);
  const tasks::TaskData data = tasks::load_data(run.config.data);
  std::vector<training::Question> questions = tasks::questions(run.config, data.test);
  std::stable_sort(questions.begin(), questions.end(),
                   [](const auto& a, const auto& b) { return a.source.size() < b.source.size(); });
  const auto score = [&](std::span<const training::Question> group) {
    const training::Validation v = training::validate({*run.model, run.values.data()}, group, {}, context.threads);
    return Bucket{group.front().source.size(), group.back().source.size(), static_cast<std::int64_t>(group.size()),
                  v.scores.exact_match()};
  };
  constexpr std::size_t kWidth = 5;
  ByLength result;
  const std::span<const training::Question> all = questions;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t past = (all[begin].source.size() - 1) / kWidth * kWidth + kWidth + 1;
    std::size_t end = begin;
    while (end < all.size() && all[end].source.size() < past) ++end;
    result.buckets.push_back(score(all.subspan(begin, end - begin)));
    begin = end;
  }
  result.longest = score(all.last(std::max<std::size_t>(1, all.size() / 4)));
  return result;
}

}  // namespace

Section run_case(const Context& context) {
  Section section{"Case conversion: the bottleneck", "Discussion 8, question 1"};
  section.say(
      "“<U> I am a student” becomes “I AM A STUDENT”, and “<L> …” lower case, letter by letter: the first token "
      "decides. Without attention, the encoder's last state must hold the whole sentence.");
  const std::vector<Trained> runs = train_all(context, kCaseGroup, case_jobs(context));
  const Trained &none = find(runs, "none"), &dot = find(runs, "dot");
  section.say("Trained here: LSTM of " + std::string(context.quick ? "64" : "128") + " units, " + epochs_of(dot) +
              (context.quick ? ", 4,000 sentences of up to 24 tokens, fewer and shorter than without --quick." : ".") +
              " The document states what attention does and prints no figures.");
  const std::string short_run = context.quick
                                    ? "This quick run trained a small model for " + epochs_of(dot) +
                                          "; rapt reproduce case, without --quick, trains a larger one longer."
                                    : "";
  const std::vector<Bucket> without = by_length(context, none).buckets;
  const ByLength measured = by_length(context, dot);
  const std::vector<Bucket>& with = measured.buckets;
  Table table{"Exact match by the length of the source, after " + epochs_of(dot),
              {"source length", "sentences", "without attention", "dot"},
              {}};
  pictures::Series lower{"without attention", {}, {}}, upper{"dot", {}, {}};
  for (std::size_t n = 0; n < with.size(); ++n) {
    table.rows.push_back({std::to_string(with[n].low) + " to " + std::to_string(with[n].high),
                          grouped(with[n].sentences), percent(without[n].exact), percent(with[n].exact)});
    const double middle = 0.5 * static_cast<double>(with[n].low + with[n].high);
    lower.x.push_back(middle);
    upper.x.push_back(middle);
    lower.y.push_back(without[n].exact);
    upper.y.push_back(with[n].exact);
  }
  section.add(std::move(table));
  section.show(
      "case_length",
      draw(pictures::Curves{
          "Case conversion: accuracy against length", "length of the source", "share of sentences", {lower, upper}}),
      "Exact match by the length of the source.");
  section.add(Table{"All test sentences, after " + epochs_of(dot),
                    {"attention", "exact match", "symbol error", "parameters", "time"},
                    {{"none", percent(none.test.get("exact_match")), percent(none.test.get("symbol_error"), 2),
                      grouped(none.parameters), duration(none.seconds)},
                     {"dot", percent(dot.test.get("exact_match")), percent(dot.test.get("symbol_error"), 2),
                      grouped(dot.parameters), duration(dot.seconds)}}});
  const double gap = dot.test.get("exact_match") - none.test.get("exact_match");
  section.claims.push_back(
      {"Discussion 8, 1.b", "One vector for the whole sentence is a bottleneck that attention removes",
       "attention bypasses it",
       percent(none.test.get("exact_match")) + " without, " + percent(dot.test.get("exact_match")) + " with",
       "at least 30 points more with attention", gap >= 0.30});
  section.claims.push_back({"Discussion 8, 1.d", "With attention the longest sentences are right too",
                            "look-up by attention",
                            percent(measured.longest.exact) + " of the longest quarter, " +
                                std::to_string(measured.longest.low) + " and more",
                            "at least 90 %", measured.longest.exact >= 0.90,
                            context.quick ? Weight::informative : Weight::must_hold, short_run});
  const std::string answer = decode(dot, kSentence).text;
  section.claims.push_back({"Discussion 8, 1", "“<U> I am a student”", "I AM A STUDENT", answer, "the same letters",
                            answer == "I AM A STUDENT", context.quick ? Weight::informative : Weight::must_hold,
                            short_run});
  section.add(Commands{{none.command, dot.command, "rapt evaluate runs/case/dot --by-length",
                        std::string("rapt decode runs/case/dot \"") + kSentence + "\""}});
  return section;
}

}  // namespace rapt::reproduce
