#include "layers/score.h"

#include <algorithm>
#include <cmath>

#include "attend/counted.h"
#include "layers/observer.h"
#include "mechanisms/sizes.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "rapt/registry.h"
#include "rapt/tiles.h"

namespace rapt::inline v1::layers {
namespace {

constexpr std::int64_t kBuckets = 32;  // of a table of any length
constexpr std::int64_t kClip = 16;     // c of a table of 2c + 1 offsets

Initial initial_of(const ParameterSpec& spec, const std::vector<std::int64_t>& shape) {
  const auto from_end = [&](std::size_t n) { return shape.size() > n ? shape[shape.size() - 1 - n] : 1; };
  // Where a formula has more numbers than slots, the rest are tables too, with sizes that the formula determines.
  const bool numbers = spec.role == Role::table && spec.sizes[0] >= 0 && spec.sizes[1] >= 0;
  switch (numbers ? Role::value : spec.role) {
    case Role::value:
      return {spec.rank() == 2 ? Initial::Kind::identity : Initial::Kind::normal, spec.fresh.value, spec.fresh.spread,
              spec.fresh.ratio};
    case Role::query_map:
    case Role::key_map: return Initial::xavier(from_end(1), from_end(0));
    case Role::pair_weight:
    case Role::relative_vector: return Initial::normal(1 / std::sqrt(static_cast<double>(from_end(0))));
    default: return Initial::constant(0);
  }
}

}  // namespace

ScoreChoice choose_score(std::string_view name, std::string_view normalize, const FormulaTexts& texts) {
  ScoreChoice choice;
  choice.normalizer = normalizer(normalize);
  if (texts.any()) {
    const Score score = formula(texts.score, {.pair = texts.pair, .visible = texts.visible});
    choice.mechanism = score.mechanism;
    choice.formula = score.object;
    // Batches are padded and split, and decoding goes step by step: a model's attention must not depend on that.
    if (choice.mechanism->definition().reads_call)
      throw Error("attention formula: expected one of positions, head and parameters, got '" +
                  std::string(choice.mechanism->formula()) + "', where batch, queries or keys change with the batch");
    return choice;
  }
  if (name != "argmax") {
    choice.mechanism = &mechanism(name);
    return choice;
  }
  if (choice.normalizer != Normalizer::softmax && choice.normalizer != Normalizer::argmax)
    throw Error("attention argmax: expected no other normaliser, got " + std::string(normalize));
  choice.mechanism = &mechanism("dot");
  choice.normalizer = Normalizer::argmax;
  return choice;
}

ScoreLayer::ScoreLayer(Parameters& parameters, const std::string& name, const ScoreChoice& choice,
                       const std::string& seen_as)
    : choice_(choice), seen_as_(seen_as.empty() ? name : seen_as) {
  if (choice_.inner == 0) choice_.inner = choice_.query_dim;
  if (choice_.value_dim == 0) choice_.value_dim = choice_.query_dim;
  const bool maps = std::ranges::any_of(choice.mechanism->parameters(), [](const ParameterSpec& spec) {
    return spec.role == Role::query_map || spec.role == Role::key_map;
  });
  if (choice.query_dim != choice.key_dim && !maps)
    throw Error(name + ": " + std::string(choice.mechanism->name()) +
                ": expected queries and keys of one head_dim, got " + std::to_string(choice.query_dim) + " and " +
                std::to_string(choice.key_dim));
  // A table by position knows every offset up to the longest sequence, in both directions.
  for (const SettingSpec& spec : choice.mechanism->settings())
    if (spec.name == "origin") choice_.settings.push_back({"origin", static_cast<double>(choice_.max_length - 1)});
  if (choice.mechanism->grid() && choice.grid[0] < 1)
    throw Error(name + ": expected a mechanism without a grid, for sequences, got " +
                std::string(choice.mechanism->name()));
  for (const ParameterSpec& spec : choice.mechanism->parameters()) {
    if (spec.role == Role::relative_output && !choice.relative_values) continue;
    const std::vector<std::int64_t> shape = shape_of(spec);
    const ParameterId id = parameters.add(name + "." + std::string(spec.name), shape, initial_of(spec, shape));
    entries_.push_back({&spec, id});
  }
  add_normalizer(parameters, name);
}

// A default that depends on the number of keys would change the weights with padding or a decoding step. It is learned
// instead, starting from its value for the longest sequence.
void ScoreLayer::add_normalizer(Parameters& parameters, const std::string& name) {
  const NormalizerInfo& info = info_of(choice_.normalizer);
  const std::int64_t keys = choice_.max_length > 0 ? choice_.max_length : choice_.grid[0] * choice_.grid[1];
  if (!info.absent || keys < 1) return;
  for (std::size_t n = 0; n < info.parameters.size(); ++n) {
    const ParameterSpec& spec = info.parameters[n];
    const ParameterId id = parameters.add(name + "." + std::string(spec.name), shape_of(spec),
                                          Initial::constant(info.absent(static_cast<int>(n), keys)));
    normalizer_entries_.push_back({&spec, id});
  }
}

std::vector<std::int64_t> ScoreLayer::shape_of(const ParameterSpec& spec) const {
  ParameterSizes sizes{.query_dim = choice_.query_dim,
                       .key_dim = choice_.key_dim,
                       .value_dim = choice_.value_dim,
                       .inner = choice_.inner};
  if (choice_.max_length > 0) sizes.positions = 2 * choice_.max_length - 1;
  sizes.grid_rows = choice_.grid[0];
  sizes.grid_cols = choice_.grid[1];
  // A formula may read its tables at any position or offset.
  sizes.any = choice_.formula ? std::max(kBuckets, 2 * choice_.max_length - 1) : kBuckets;
  sizes.odd = 2 * kClip + 1;
  std::vector<std::int64_t> shape;
  if (spec.heads != Heads::shared) shape.push_back(choice_.heads);
  for (int n = 0; n < spec.rank(); ++n) {
    const std::optional<std::int64_t> size = resolve(spec.sizes[static_cast<std::size_t>(n)], sizes);
    if (!size)
      throw Error(std::string(choice_.mechanism->name()) +
                  ": expected a longest sequence, which sizes its table, got none");
    shape.push_back(*size);
  }
  if (shape.empty()) shape.push_back(1);
  return shape;
}

ParameterId ScoreLayer::parameter(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.spec->name == name) return entry.id;
  throw Error("score " + std::string(choice_.mechanism->name()) + ": expected one of its parameters, got '" +
              std::string(name) + "'");
}

bool ScoreLayer::ends_with_length(const ParameterSpec& spec) const {
  return spec.sizes[0] == kPositions || (choice_.formula && spec.sizes[0] == kAny);
}

bool ScoreLayer::has_length_limit() const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) { return ends_with_length(*entry.spec); });
}

template <class T>
Tensor<T> ScoreLayer::operator()(Graph<T>& graph, const Tensor<T>& q, const Tensor<T>& k, const Tensor<T>& v,
                                 const AttentionOptions<T>& options) const {
  return shared<T>(graph, q, k, {&v, 1}, {}, options)[0];
}

template <class T>
std::vector<Tensor<T>> ScoreLayer::shared(Graph<T>& graph, const Tensor<T>& q, const Tensor<T>& k,
                                          std::span<const Tensor<T>> values, const Tensor<T>& bias,
                                          const AttentionOptions<T>& options) const {
  AttentionCall<T> call;
  call.q = q;
  call.k = k;
  call.values.assign(values.begin(), values.end());
  call.bias = bias;
  call.mechanism = choice_.mechanism;
  call.settings = choice_.settings;
  call.layout = choice_.layout;
  if (choice_.mechanism->grid()) call.grid = choice_.grid;
  call.mask = options.mask;
  call.first_query = options.first_query;
  call.normalizer = choice_.normalizer;
  call.weights = options.weights;
  const std::int64_t longest = std::max(options.first_query + q.size(2), k.size(2));
  for (const Entry& entry : entries_) {
    call.parameters.push_back({std::string(entry.spec->name), graph.get(entry.id)});
    if (!ends_with_length(*entry.spec)) continue;
    if (longest > choice_.max_length)
      throw Error(std::string(choice_.mechanism->name()) + ": expected a sequence of up to " +
                  counted(choice_.max_length, "step") + ", the longest that the model was made for, got " +
                  std::to_string(longest));
  }
  for (const Entry& entry : normalizer_entries_)
    call.normalizer_parameters.push_back({std::string(entry.spec->name), graph.get(entry.id)});
  if (AttentionObserver<T>* observer = graph.observer()) observer->attended({seen_as_, call});
  return shared_attention(graph.tape, call);
}

#define RAPT_INSTANTIATE(T)                                                                                  \
  template Tensor<T> ScoreLayer::operator()(Graph<T>&, const Tensor<T>&, const Tensor<T>&, const Tensor<T>&, \
                                            const AttentionOptions<T>&) const;                               \
  template std::vector<Tensor<T>> ScoreLayer::shared(Graph<T>&, const Tensor<T>&, const Tensor<T>&,          \
                                                     std::span<const Tensor<T>>, const Tensor<T>&,           \
                                                     const AttentionOptions<T>&) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::layers
