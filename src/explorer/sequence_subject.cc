#include "explorer/sequence_subject.h"

#include <algorithm>
#include <numeric>

#include "layers/attention_log.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tensor/simd/table.h"
#include "training/not_finite.h"

namespace rapt::explorer {
namespace {

constexpr std::size_t kOthers = 8;
constexpr std::size_t kMostTokens = 16384;

// The inverse of DataConfig::split_source.
std::string source_text(const tasks::DataConfig& data, std::span<const std::string> tokens) {
  if (data.source == tasks::Source::cases)
    return tokens.front() + " " + tasks::join(tokens.subspan(1), tasks::Units::characters);
  return tasks::join(tokens, data.source == tasks::Source::pairs ? data.source_units : tasks::Units::characters);
}

Group group_of(const std::string& name) {
  if (name.starts_with("encoder.")) return Group::encoder;
  return name.ends_with(".self") ? Group::decoder : Group::cross;
}

// A step's choice and the most probable alternatives, from its logits.
Step step_of(float* logits, std::int64_t symbols, int chosen, const tasks::Vocabulary& vocabulary) {
  tensor_kernels<float>().log_softmax(logits, symbols);
  const auto choice = [&](int id) { return Choice{vocabulary.symbol(id), std::exp(static_cast<double>(logits[id]))}; };
  std::vector<int> order(static_cast<std::size_t>(symbols));
  std::iota(order.begin(), order.end(), 0);
  const auto most = order.begin() + static_cast<std::ptrdiff_t>(std::min(kOthers, order.size()));
  std::partial_sort(order.begin(), most, order.end(),
                    [&](int a, int b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  Step step{choice(chosen), {}};
  for (auto id = order.begin(); id != most; ++id) step.others.push_back(choice(*id));
  return step;
}

}  // namespace

SequenceSubject::SequenceSubject(const std::filesystem::path& run)
    : title_(run.lexically_normal().string()),
      run_(tasks::load_sequence_run(run)),
      source_(run_.config.source_symbols),
      target_(run_.config.target_symbols) {
  if (!run_.model->has_attention())
    throw Error("explore: " + run.string() + ": expected a model with attention, got one without");
}

std::string SequenceSubject::example() const {
  tasks::DataConfig data = run_.config.data;
  try {
    const tasks::TaskData examples = tasks::load_data(data);
    for (const std::vector<tasks::Example>* part : {&examples.test, &examples.valid, &examples.train})
      if (!part->empty()) return source_text(data, part->front().source);
  } catch (const Error& error) {
    throw Error(std::string("explore: text: expected a text, or the run's own data, got neither: ") + error.what());
  }
  throw Error("explore: text: expected a text, or a run with examples, got neither");
}

Exhibit SequenceSubject::show(std::string_view text, std::string_view target) const {
  const tasks::DataConfig& data = run_.config.data;
  Exhibit exhibit;
  exhibit.title = title_;
  exhibit.text = text;
  if (text.empty()) throw Error("explore: text: expected at least one token, got none");
  const std::vector<std::string> source = data.split_source(text);
  const auto check = [](const char* what, std::size_t count) {
    if (count == 0 || count > kMostTokens)
      throw Error(std::string("explore: ") + what + ": expected 1 to " + std::to_string(kMostTokens) + " tokens, got " +
                  std::to_string(count));
  };
  check("text", source.size());
  training::EncodedExample example{source_.encode(source), {}};
  exhibit.warnings = tasks::unknown_notes(source, example.source);
  std::vector<std::string> answer;
  if (target.empty()) {
    const auto found =
        training::translate({*run_.model, run_.values.data()}, std::span(&example.source, 1), {}, default_threads());
    example.target = found.front().front().tokens;
    answer = target_.decode(example.target);
    if (!found.front().front().finished) exhibit.note = "The answer was cut off at the longest length.";
  } else {
    answer = data.split_target(target);
    check("target", answer.size());
    example.target = target_.encode(answer);
    for (const std::string& warning : tasks::unknown_notes(answer, example.target))
      exhibit.warnings.push_back("target: " + warning);
    exhibit.note = "The target was given; the probabilities are those of its tokens.";
  }
  exhibit.target = data.join_target(answer);

  models::Batch batch;
  training::make_batch({&example, 1}, batch);
  Tape<float> tape(false);
  layers::Graph<float> graph(tape, run_.model->parameters(), run_.values.data(), nullptr);
  layers::AttentionLog<float> log;
  graph.observe(log);
  const Tensor<float> logits = run_.model->logits<float>(graph, batch);

  training::require_finite("explore: " + title_, {logits.data, static_cast<std::size_t>(logits.count())});
  std::vector<std::string> before{"<begin>"};
  before.insert(before.end(), answer.begin(), answer.end());
  std::vector<std::string> produced = answer;
  produced.emplace_back("<end>");
  exhibit.tokens = {source, before, produced};
  for (const layers::AttentionRecord& record : log.records()) {
    Layer layer;
    layer.name = record.name;
    layer.mechanism = record.options.score.mechanism->name();
    if (record.options.normalizer != Normalizer::softmax)
      layer.mechanism += ", " + std::string(info_of(record.options.normalizer).name);
    layer.group = group_of(record.name);
    layer.query_tokens = layer.group == Group::encoder ? 0 : layer.group == Group::decoder ? 1 : 2;
    layer.key_tokens = layer.group == Group::decoder ? 1 : 0;
    layer.weights = std::make_shared<RecordedWeights>(record);
    exhibit.layers.push_back(std::move(layer));
  }
  for (std::int64_t t = 0; t < batch.target_steps; ++t)
    exhibit.steps.push_back(step_of(logits.data + t * logits.size(2), logits.size(2),
                                    batch.target_out[static_cast<std::size_t>(t)], target_));
  return exhibit;
}

}  // namespace rapt::explorer
