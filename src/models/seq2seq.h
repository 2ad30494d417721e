#pragma once

#include <memory>

#include "layers/basic.h"
#include "layers/recurrent.h"
#include "layers/score.h"
#include "models/batch.h"
#include "models/config.h"
#include "models/decoder.h"

namespace rapt::inline v1::models {

// Encoder and decoder of recurrent cells, with or without attention (Luong's: s̃ = tanh(W_c[c; s])).
class Seq2seq {
 public:
  Seq2seq(const Seq2seqConfig& config, const Sizes& sizes, layers::Parameters& parameters);

  bool has_attention() const { return config_.attention != "none"; }
  bool has_length_limit() const { return has_attention() && score_.has_length_limit(); }

  // Logits of every target step, [target_steps, batch, symbols], given the reference tokens before it.
  template <class T>
  Tensor<T> logits(layers::Graph<T>& graph, const Batch& batch, Alignment<T>* alignment = nullptr) const;

  template <class T>
  std::unique_ptr<Decoder<T>> decoder(const layers::Parameters& parameters, const T* values, const Batch& sources,
                                      std::shared_ptr<PackCache<T>> packs) const;

 private:
  template <class T>
  friend class Seq2seqDecoder;

  template <class T>
  struct Encoded {
    Tensor<T> keys;                           // [source_steps, batch, hidden], with attention
    Tensor<T> values;                         // the same
    std::vector<CellState<T>> decoder_state;  // that the decoder starts from; empty: zeros
    Tensor<T> context;                        // [1, batch, hidden], a part of every input; or empty
    std::span<const std::int64_t> lengths;
    layers::SymbolTables<T> tables;  // of the decoder, where it takes steps one after the other
  };
  template <class T>
  struct Step {
    Tensor<T> attentional;  // s̃, [steps, batch, hidden]
    std::vector<CellState<T>> state;
  };

  template <class T>
  Encoded<T> encode(layers::Graph<T>& graph, const Batch& batch) const;
  // The state of decoding after some steps.
  template <class T>
  struct Before {
    std::span<const CellState<T>> state;
    Tensor<T> attentional;   // of the last step, [1, batch, hidden]: for input feeding
    std::int64_t steps = 0;  // how many there were
  };
  // Target steps all at once. `weights`: [steps, batch, source_steps], or null.
  template <class T>
  Step<T> decode(layers::Graph<T>& graph, const Encoded<T>& source, std::span<const int> tokens, std::int64_t batch,
                 const Before<T>& before, T* weights) const;
  // The attentional states of the queries, the first of which stands at `first_query`.
  template <class T>
  Tensor<T> attend(layers::Graph<T>& graph, const Encoded<T>& source, const Tensor<T>& queries,
                   std::int64_t first_query, T* weights) const;
  // Whether a table of each symbol's part in the gates saves work over `uses` embedded tokens.
  template <class T>
  bool table_pays(const layers::Graph<T>& graph, std::int64_t symbols, std::int64_t uses) const {
    return !graph.drops(config_.dropout) && symbols <= uses / 2;
  }
  bool feeds_symbols_only() const {
    return has_attention() ? !config_.input_feeding : config_.conditioning == Conditioning::first_step;
  }
  template <class T>
  Tensor<T> zeros(layers::Graph<T>& graph, std::int64_t batch) const;

  Seq2seqConfig config_;
  Sizes sizes_;
  layers::Embedding source_embedding_, target_embedding_;
  layers::Recurrent encoder_, decoder_;
  layers::ScoreLayer score_;
  bool projected_ = false;  // queries, keys and values go through linear layers: bounded states alone score too evenly
  layers::Linear query_, key_, value_;
  layers::Linear combine_, output_;
};

}  // namespace rapt::inline v1::models
