#pragma once

#include <memory>
#include <vector>

#include "layers/attention.h"
#include "layers/basic.h"
#include "layers/positions.h"
#include "models/batch.h"
#include "models/config.h"
#include "models/decoder.h"

namespace rapt::inline v1::models {

// Encoder and decoder of attention alone (Vaswani and others 2017), over any mechanism.
class Transformer {
 public:
  Transformer(const TransformerConfig& config, const Sizes& sizes, layers::Parameters& parameters);

  // The encoder's output, [source_steps, batch, width].
  template <class T>
  Tensor<T> encode(layers::Graph<T>& graph, const Batch& batch) const;

  // Logits of every target step, [target_steps, batch, symbols], given the reference tokens before it. The alignment is
  // the mean of the last layer's heads.
  template <class T>
  Tensor<T> logits(layers::Graph<T>& graph, const Batch& batch, Alignment<T>* alignment = nullptr) const;

  // Step by step, keeping the keys and values of earlier steps: the same bits as logits().
  template <class T>
  std::unique_ptr<Decoder<T>> decoder(const layers::Parameters& parameters, const T* values, const Batch& sources,
                                      std::shared_ptr<PackCache<T>> packs) const;

 private:
  template <class T>
  friend class TransformerDecoder;

  // A layer with a residual connection, and the norm before or after it.
  template <class T, class F>
  Tensor<T> residual(layers::Graph<T>& graph, const layers::LayerNorm& norm, const Tensor<T>& x, F&& layer) const {
    if (config_.pre_norm) return add(graph.tape, x, graph.dropout(layer(norm(graph, x)), config_.dropout));
    return norm(graph, add(graph.tape, x, graph.dropout(layer(x), config_.dropout)));
  }
  template <class T>
  Tensor<T> embed(layers::Graph<T>& graph, const layers::Embedding& embedding,
                  const layers::PositionalEncoding& positions, const layers::Linear& narrow, std::span<const int> ids,
                  std::int64_t batch, std::int64_t first_step) const;
  template <class T>
  Tensor<T> output(layers::Graph<T>& graph, const Tensor<T>& x) const;

  struct EncoderBlock {
    layers::LayerNorm self_norm, inner_norm;
    layers::MultiHeadAttention self;
    layers::Mlp inner;
  };
  struct DecoderBlock {
    layers::LayerNorm self_norm, cross_norm, inner_norm;
    layers::MultiHeadAttention self, cross;
    layers::Mlp inner;
  };

  TransformerConfig config_;
  Sizes sizes_;
  layers::Embedding source_embedding_, target_embedding_;
  layers::PositionalEncoding source_positions_, target_positions_;
  layers::Linear source_narrow_, target_narrow_;  // back to the width, where positions are concatenated
  std::vector<EncoderBlock> encoder_;
  std::vector<DecoderBlock> decoder_;
  layers::LayerNorm encoder_norm_, decoder_norm_;  // after the last layer, with the norms before
  layers::Linear output_;                          // where it is not tied
};

}  // namespace rapt::inline v1::models
