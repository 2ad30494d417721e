#include "models/seq2seq.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensor/pack_cache.h"
#include "tensor/token_ids.h"

namespace rapt::inline v1::models {
namespace {

using layers::Graph;

template <class T>
void copy_into(Graph<T>& graph, const Tensor<T>& from, const Tensor<T>& place) {
  std::memcpy(place.data, from.data, static_cast<std::size_t>(from.count()) * sizeof(T));
  graph.tape.record([from, place] {
    if (from.grad) tensor_kernels<T>().add(place.grad, from.grad, from.count());
  });
}

}  // namespace

Seq2seq::Seq2seq(const Seq2seqConfig& config, const Sizes& sizes, layers::Parameters& parameters)
    : config_(config), sizes_(sizes) {
  const std::int64_t hidden = config.hidden;
  source_embedding_ = layers::Embedding(parameters, "encoder.embedding", sizes.source_symbols, config.embedding);
  encoder_ =
      layers::Recurrent(parameters, "encoder",
                        {config.cell, config.embedding, hidden, config.layers, config.bidirectional, config.dropout});
  target_embedding_ = layers::Embedding(parameters, "decoder.embedding", sizes.target_symbols, config.embedding);
  std::int64_t in = config.embedding;
  if (!has_attention() && config.conditioning == Conditioning::every_step) in += hidden;
  if (has_attention() && config.input_feeding) in += hidden;
  decoder_ = layers::Recurrent(parameters, "decoder", {config.cell, in, hidden, config.layers, false, config.dropout});
  if (has_attention()) {
    layers::ScoreChoice choice = layers::choose_score(config.attention, config.normalize, config.formula);
    choice.query_dim = choice.key_dim = hidden;
    choice.max_length = sizes.max_length;
    score_ = layers::ScoreLayer(parameters, "attention", choice);
    projected_ = choice.mechanism->scaled();
    if (projected_) {
      query_ = layers::Linear(parameters, "attention.query", hidden, hidden, false);
      key_ = layers::Linear(parameters, "attention.key", hidden, hidden, false);
      value_ = layers::Linear(parameters, "attention.value", hidden, hidden, false);
    }
    combine_ = layers::Linear(parameters, "attention.combine", 2 * hidden, hidden, false);
  }
  output_ = layers::Linear(parameters, "decoder.output", hidden, sizes.target_symbols);
}

template <class T>
Seq2seq::Encoded<T> Seq2seq::encode(Graph<T>& graph, const Batch& batch) const {
  const auto run = [&] {
    if (table_pays(graph, sizes_.source_symbols, static_cast<std::int64_t>(batch.source.size())))
      return encoder_(graph, encoder_.tables(graph, source_embedding_.table(graph)), batch.source, batch.size,
                      batch.source_lengths);
    const Tensor<T> x = graph.dropout(source_embedding_(graph, batch.source, batch.size), config_.dropout);
    return encoder_(graph, x, batch.source_lengths);
  };
  layers::RecurrentOutput<T> encoded = run();
  Encoded<T> source;
  if (has_attention()) {
    source.keys = projected_ ? key_(graph, encoded.states) : encoded.states;
    source.values = projected_ ? value_(graph, encoded.states) : encoded.states;
  }
  source.lengths = batch.source_lengths;
  if (!has_attention() && config_.conditioning == Conditioning::every_step)
    source.context = encoded.last.back().h.reshape({1, batch.size, config_.hidden});
  else source.decoder_state = std::move(encoded.last);
  return source;
}

template <class T>
Tensor<T> Seq2seq::attend(Graph<T>& graph, const Encoded<T>& source, const Tensor<T>& queries, std::int64_t first_query,
                          T* weights) const {
  Mask mask;
  mask.key_lengths.assign(source.lengths.begin(), source.lengths.end());
  const std::int64_t count = queries.size(0);
  const std::int64_t batch = queries.size(1);
  const std::int64_t keys = source.keys.size(0);
  T* rows = weights ? graph.tape.scratch(batch * count * keys) : nullptr;
  const Tensor<T> asked = projected_ ? query_(graph, queries) : queries;
  const Tensor<T> context =
      score_(graph, asked.split_heads(1), source.keys.split_heads(1), source.values.split_heads(1),
             {.mask = mask, .first_query = first_query, .weights = rows});
  for (std::int64_t t = 0; rows && t < count; ++t)
    for (std::int64_t b = 0; b < batch; ++b, weights += keys) std::copy_n(rows + (b * count + t) * keys, keys, weights);
  const std::array<Tensor<T>, 2> parts{context, queries};
  return combine_.activated(graph, concatenate<T>(graph.tape, parts), Activation::tanh);
}

template <class T>
Tensor<T> Seq2seq::zeros(Graph<T>& graph, std::int64_t batch) const {
  Tensor<T> z = graph.tape.make({1, batch, config_.hidden});
  std::fill_n(z.data, z.count(), T(0));
  return z;
}

template <class T>
Seq2seq::Step<T> Seq2seq::decode(Graph<T>& graph, const Encoded<T>& source, std::span<const int> tokens,
                                 std::int64_t batch, const Before<T>& before, T* weights) const {
  const std::int64_t steps = static_cast<std::int64_t>(tokens.size()) / batch;
  layers::SymbolTables<T> tables = source.tables;
  if (!tables && feeds_symbols_only() && table_pays(graph, sizes_.target_symbols, steps * batch))
    tables = decoder_.tables(graph, target_embedding_.table(graph));
  Tensor<T> x;
  if (!tables) x = graph.dropout(target_embedding_(graph, tokens, batch), config_.dropout);
  if (source.context) {
    const std::array<Tensor<T>, 2> parts{x, source.context};
    x = concatenate<T>(graph.tape, parts);
  }
  if (!has_attention() || !config_.input_feeding) {
    layers::RecurrentOutput<T> out =
        tables ? decoder_(graph, tables, tokens, batch, {}, before.state) : decoder_(graph, x, {}, before.state);
    if (!has_attention()) return {out.states, std::move(out.last)};
    return {attend(graph, source, out.states, before.steps, weights), std::move(out.last)};
  }
  // With input feeding, a step needs the attentional state of the step before.
  Step<T> result;
  result.state.assign(before.state.begin(), before.state.end());
  result.attentional = graph.tape.make({steps, batch, config_.hidden});
  Tensor<T> fed = before.attentional;
  for (std::int64_t t = 0; t < steps; ++t) {
    const std::array<Tensor<T>, 2> parts{x.slice(0, t, t + 1), fed};
    layers::RecurrentOutput<T> out =
        decoder_(graph, concatenate<T>(graph.tape, parts), {}, std::span<const CellState<T>>(result.state));
    fed = attend(graph, source, out.states, before.steps + t,
                 weights ? weights + t * batch * source.keys.size(0) : nullptr);
    copy_into(graph, fed, result.attentional.slice(0, t, t + 1));
    result.state = std::move(out.last);
  }
  return result;
}

template <class T>
Tensor<T> Seq2seq::logits(Graph<T>& graph, const Batch& batch, Alignment<T>* alignment) const {
  const Encoded<T> source = encode(graph, batch);
  const std::int64_t keys = batch.source_steps;
  const std::int64_t rows = static_cast<std::int64_t>(batch.target_steps) * batch.size;
  T* weights = alignment && has_attention() ? graph.tape.scratch(rows * keys) : nullptr;
  const Before<T> before{source.decoder_state, zeros(graph, batch.size), 0};
  const Step<T> step = decode<T>(graph, source, batch.target_in, batch.size, before, weights);
  if (weights) {
    alignment->weights.resize(static_cast<std::size_t>(rows * keys));
    for (std::int64_t t = 0; t < batch.target_steps; ++t)
      for (std::int64_t b = 0; b < batch.size; ++b)
        std::copy_n(weights + (t * batch.size + b) * keys, keys,
                    alignment->weights.begin() + (b * batch.target_steps + t) * keys);
  }
  return output_(graph, graph.dropout(step.attentional, config_.dropout));
}

// Keeps the state of every hypothesis between steps; sources are encoded once.
template <class T>
class Seq2seqDecoder final : public Decoder<T> {
 public:
  Seq2seqDecoder(const Seq2seq& model, const layers::Parameters& parameters, const T* values, const Batch& sources,
                 std::shared_ptr<PackCache<T>> packs)
      : model_(model),
        parameters_(parameters),
        values_(values),
        packs_(std::move(packs)),
        lengths_(sources.source_lengths) {
    encoding_.use(packs_.get());
    tape_.use(packs_.get());
    Graph<T> graph(encoding_, parameters, values, nullptr);
    encoded_ = model.encode(graph, sources);
    // A source takes at least a few steps.
    if (model.feeds_symbols_only() && model.table_pays(graph, symbols(), 8 * sources.size))
      encoded_.tables = model.decoder_.tables(graph, model.target_embedding_.table(graph));
    const std::int64_t hidden = model.config_.hidden;
    const std::size_t layers = static_cast<std::size_t>(model.config_.layers);
    states_.resize(layers);
    for (std::size_t l = 0; l < encoded_.decoder_state.size(); ++l) {
      states_[l].h.assign(encoded_.decoder_state[l].h.data, encoded_.decoder_state[l].h.data + sources.size * hidden);
      if (encoded_.decoder_state[l].c)
        states_[l].c.assign(encoded_.decoder_state[l].c.data, encoded_.decoder_state[l].c.data + sources.size * hidden);
    }
    if (encoded_.decoder_state.empty())
      for (State& s : states_) {
        s.h.assign(static_cast<std::size_t>(sources.size * hidden), T(0));
        if (model.config_.cell == Cell::lstm) s.c = s.h;
      }
    fed_.assign(static_cast<std::size_t>(sources.size * hidden), T(0));
    source_of_.resize(static_cast<std::size_t>(sources.size));
    for (std::size_t n = 0; n < source_of_.size(); ++n) source_of_[n] = static_cast<int>(n);
  }

  std::int64_t symbols() const override { return model_.sizes_.target_symbols; }

  const T* step(std::span<const int> tokens, std::span<const int> parents) override {
    const auto count = static_cast<std::int64_t>(tokens.size());
    const std::int64_t hidden = model_.config_.hidden;
    tape_.reset();
    Graph<T> graph = this->step_graph(tape_, parameters_, values_);
    const auto pick = [&](const std::vector<T>& from) {
      Tensor<T> to = tape_.make({count, hidden});
      for (std::int64_t n = 0; n < count; ++n)
        std::copy_n(from.begin() + parents[static_cast<std::size_t>(n)] * hidden, hidden, to.data + n * hidden);
      return to;
    };
    std::vector<CellState<T>> state;
    for (const State& s : states_) state.push_back({pick(s.h), s.c.empty() ? Tensor<T>{} : pick(s.c)});
    Tensor<T> fed = model_.config_.input_feeding ? pick(fed_).reshape({1, count, hidden}) : Tensor<T>{};
    next_source_.resize(tokens.size());
    for (std::size_t n = 0; n < tokens.size(); ++n) next_source_[n] = source_of_[static_cast<std::size_t>(parents[n])];
    source_of_.swap(next_source_);
    const auto out = model_.decode<T>(graph, gather(), tokens, count, {state, fed, steps_++}, nullptr);
    for (std::size_t l = 0; l < states_.size(); ++l) {
      states_[l].h.assign(out.state[l].h.data, out.state[l].h.data + count * hidden);
      if (out.state[l].c) states_[l].c.assign(out.state[l].c.data, out.state[l].c.data + count * hidden);
    }
    if (model_.config_.input_feeding) fed_.assign(out.attentional.data, out.attentional.data + count * hidden);
    return model_.output_(graph, out.attentional).data;
  }

 private:
  struct State {
    std::vector<T> h, c;
  };

  // What each hypothesis sees of its source.
  Seq2seq::Encoded<T> gather() {
    const auto count = static_cast<std::int64_t>(source_of_.size());
    Seq2seq::Encoded<T> result;
    result.tables = encoded_.tables;
    bool same = source_of_.size() == lengths_.size();
    for (std::size_t n = 0; same && n < source_of_.size(); ++n) same = source_of_[n] == static_cast<int>(n);
    if (same) {
      result.keys = encoded_.keys;
      result.values = encoded_.values;
      result.context = encoded_.context;
      result.lengths = lengths_;
      return result;
    }
    const std::int64_t hidden = model_.config_.hidden;
    const auto columns = [&](const Tensor<T>& from) {
      if (!from) return Tensor<T>{};
      const Tensor<T> to = tape_.make({from.size(0), count, hidden});
      for (std::int64_t s = 0; s < from.size(0); ++s)
        for (std::int64_t n = 0; n < count; ++n)
          std::copy_n(from.data + (s * from.size(1) + source_of_[static_cast<std::size_t>(n)]) * hidden, hidden,
                      to.data + (s * count + n) * hidden);
      return to;
    };
    result.keys = columns(encoded_.keys);
    result.values = encoded_.values.data == encoded_.keys.data ? result.keys : columns(encoded_.values);
    result.context = columns(encoded_.context);
    gathered_lengths_.clear();
    for (const int s : source_of_) gathered_lengths_.push_back(lengths_[static_cast<std::size_t>(s)]);
    result.lengths = gathered_lengths_;
    return result;
  }

  const Seq2seq& model_;
  const layers::Parameters& parameters_;
  const T* values_;
  std::shared_ptr<PackCache<T>> packs_;
  Tape<T> encoding_{false};
  Tape<T> tape_{false};
  Seq2seq::Encoded<T> encoded_;
  std::vector<std::int64_t> lengths_, gathered_lengths_;
  std::vector<State> states_;
  std::vector<T> fed_;
  std::int64_t steps_ = 0;
  std::vector<int> source_of_, next_source_;
};

template <class T>
std::unique_ptr<Decoder<T>> Seq2seq::decoder(const layers::Parameters& parameters, const T* values,
                                             const Batch& sources, std::shared_ptr<PackCache<T>> packs) const {
  return std::make_unique<Seq2seqDecoder<T>>(*this, parameters, values, sources, std::move(packs));
}

#define RAPT_INSTANTIATE(T)                                                                                \
  template Tensor<T> Seq2seq::logits(Graph<T>&, const Batch&, Alignment<T>*) const;                        \
  template std::unique_ptr<Decoder<T>> Seq2seq::decoder(const layers::Parameters&, const T*, const Batch&, \
                                                        std::shared_ptr<PackCache<T>>) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::models
