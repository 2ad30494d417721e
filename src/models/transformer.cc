#include "models/transformer.h"

#include <cmath>

namespace rapt::inline v1::models {

using layers::Graph;

Transformer::Transformer(const TransformerConfig& config, const Sizes& sizes, layers::Parameters& parameters)
    : config_(config), sizes_(sizes) {
  const std::int64_t width = config.width;
  layers::PositionsShape positions;
  positions.kind = config.positions;
  positions.concatenate = config.concatenate_positions;
  positions.width = width;
  positions.max_length = sizes.max_length;
  const auto attention = [&](const std::string& name, bool self) {
    layers::MultiHeadShape shape;
    shape.score = layers::choose_score(self ? config.attention : config.cross_attention, config.normalize,
                                       self ? config.formula : config.cross_formula);
    shape.score.max_length = sizes.max_length;
    shape.query_in = shape.key_in = width;
    shape.heads = config.heads;
    shape.rotary = self && config.positions == layers::Positions::rotary;
    return layers::MultiHeadAttention(parameters, name, shape);
  };
  const auto mlp = [&](const std::string& name) {
    return layers::Mlp(parameters, name, width, config.inner, width, Activation::relu, config.dropout);
  };
  source_embedding_ = layers::Embedding(parameters, "encoder.embedding", sizes.source_symbols, width);
  source_positions_ = layers::PositionalEncoding(parameters, "encoder.positions", positions);
  target_embedding_ = layers::Embedding(parameters, "decoder.embedding", sizes.target_symbols, width);
  target_positions_ = layers::PositionalEncoding(parameters, "decoder.positions", positions);
  if (source_positions_.width() != width) {
    source_narrow_ = layers::Linear(parameters, "encoder.narrow", source_positions_.width(), width);
    target_narrow_ = layers::Linear(parameters, "decoder.narrow", target_positions_.width(), width);
  }
  for (int l = 0; l < config.layers; ++l) {
    const std::string name = "encoder." + std::to_string(l);
    encoder_.push_back({layers::LayerNorm(parameters, name + ".self_norm", width),
                        layers::LayerNorm(parameters, name + ".inner_norm", width), attention(name + ".self", true),
                        mlp(name + ".inner")});
  }
  for (int l = 0; l < config.layers; ++l) {
    const std::string name = "decoder." + std::to_string(l);
    decoder_.push_back({layers::LayerNorm(parameters, name + ".self_norm", width),
                        layers::LayerNorm(parameters, name + ".cross_norm", width),
                        layers::LayerNorm(parameters, name + ".inner_norm", width), attention(name + ".self", true),
                        attention(name + ".cross", false), mlp(name + ".inner")});
  }
  if (config.pre_norm) {
    encoder_norm_ = layers::LayerNorm(parameters, "encoder.norm", width);
    decoder_norm_ = layers::LayerNorm(parameters, "decoder.norm", width);
  }
  if (!config.tied) output_ = layers::Linear(parameters, "decoder.output", width, sizes.target_symbols);
}

template <class T>
Tensor<T> Transformer::embed(Graph<T>& graph, const layers::Embedding& embedding,
                             const layers::PositionalEncoding& positions, const layers::Linear& narrow,
                             std::span<const int> ids, std::int64_t batch, std::int64_t first_step) const {
  const auto factor = static_cast<T>(std::sqrt(static_cast<double>(config_.width)));
  Tensor<T> x = positions(graph, scale(graph.tape, embedding(graph, ids, batch), factor), first_step);
  if (positions.width() != config_.width) x = narrow(graph, x);
  return graph.dropout(x, config_.dropout);
}

template <class T>
Tensor<T> Transformer::output(Graph<T>& graph, const Tensor<T>& x) const {
  const Tensor<T> last = config_.pre_norm ? decoder_norm_(graph, x) : x;
  return config_.tied ? target_embedding_.scores(graph, last) : output_(graph, last);
}

template <class T>
Tensor<T> Transformer::encode(Graph<T>& graph, const Batch& batch) const {
  Mask mask;
  mask.key_lengths = batch.source_lengths;
  Tensor<T> x = embed(graph, source_embedding_, source_positions_, source_narrow_, batch.source, batch.size, 0);
  for (const EncoderBlock& block : encoder_) {
    const auto before = graph.tape.mark();
    x = residual(graph, block.self_norm, x,
                 [&](const Tensor<T>& in) { return block.self(graph, in, in, {.mask = mask}); });
    x = residual(graph, block.inner_norm, x, [&](const Tensor<T>& in) { return block.inner(graph, in); });
    x = graph.tape.keep_only(before, x);
  }
  return config_.pre_norm ? encoder_norm_(graph, x) : x;
}

template <class T>
Tensor<T> Transformer::logits(Graph<T>& graph, const Batch& batch, Alignment<T>* alignment) const {
  const Tensor<T> memory = encode(graph, batch);
  Mask causal;
  causal.causal = Causal::top_left;
  Mask known;
  known.key_lengths = batch.source_lengths;
  const std::int64_t map = static_cast<std::int64_t>(batch.target_steps) * batch.source_steps;
  T* weights = alignment ? graph.tape.scratch(batch.size * config_.heads * map) : nullptr;
  Tensor<T> x = embed(graph, target_embedding_, target_positions_, target_narrow_, batch.target_in, batch.size, 0);
  for (const DecoderBlock& block : decoder_) {
    T* wanted = &block == &decoder_.back() ? weights : nullptr;
    const auto before = graph.tape.mark();
    x = residual(graph, block.self_norm, x,
                 [&](const Tensor<T>& in) { return block.self(graph, in, in, {.mask = causal}); });
    x = residual(graph, block.cross_norm, x, [&](const Tensor<T>& in) {
      return block.cross(graph, in, memory, {.mask = known, .weights = wanted});
    });
    x = residual(graph, block.inner_norm, x, [&](const Tensor<T>& in) { return block.inner(graph, in); });
    x = graph.tape.keep_only(before, x);
  }
  if (weights) {
    alignment->weights.assign(static_cast<std::size_t>(batch.size * map), T(0));
    const T share = T(1) / static_cast<T>(config_.heads);
    for (std::int64_t b = 0; b < batch.size; ++b)
      for (std::int64_t h = 0; h < config_.heads; ++h)
        tensor_kernels<T>().add_scaled(share, weights + (b * config_.heads + h) * map,
                                       alignment->weights.data() + b * map, map);
  }
  return output(graph, x);
}

template Tensor<float> Transformer::encode(Graph<float>&, const Batch&) const;
template Tensor<double> Transformer::encode(Graph<double>&, const Batch&) const;
template Tensor<float> Transformer::logits(Graph<float>&, const Batch&, Alignment<float>*) const;
template Tensor<double> Transformer::logits(Graph<double>&, const Batch&, Alignment<double>*) const;

#define RAPT_INSTANTIATE(T)                                                                                      \
  template Tensor<T> Transformer::embed(Graph<T>&, const layers::Embedding&, const layers::PositionalEncoding&,  \
                                        const layers::Linear&, std::span<const int>, std::int64_t, std::int64_t) \
      const;                                                                                                     \
  template Tensor<T> Transformer::output(Graph<T>&, const Tensor<T>&) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::models
