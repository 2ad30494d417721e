#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "models/seq2seq.h"
#include "models/transformer.h"

namespace rapt::inline v1::models {

// Any model that turns one sequence into another.
class SequenceModel {
 public:
  SequenceModel(const ModelConfig& config, const Sizes& sizes);
  SequenceModel(const SequenceModel&) = delete;
  SequenceModel& operator=(const SequenceModel&) = delete;

  const ModelConfig& config() const { return config_; }
  const Sizes& sizes() const { return sizes_; }
  const layers::Parameters& parameters() const { return parameters_; }
  // Whether the model gives alignments.
  bool has_attention() const;
  // What an alignment is the mean of, with layers and heads counted from 0.
  std::string alignment_name() const;
  // Whether sequences end with sizes().max_length, as tables of positions do.
  bool has_length_limit() const;

  template <class T>
  Tensor<T> logits(layers::Graph<T>& graph, const Batch& batch, Alignment<T>* alignment = nullptr) const {
    return std::visit([&](const auto& model) { return model.logits(graph, batch, alignment); }, model_);
  }
  // Decoders of the same values share their packed weights if they are given one cache.
  template <class T>
  std::unique_ptr<Decoder<T>> decoder(const T* values, const Batch& sources,
                                      std::shared_ptr<PackCache<T>> packs = nullptr) const {
    if (!packs) {
      packs = std::make_shared<PackCache<T>>();
      add_constants(values, *packs);
    }
    return std::visit([&](const auto& model) { return model.decoder(parameters_, values, sources, std::move(packs)); },
                      model_);
  }
  // Lets the cache pack these parameters, which do not change while decoders use it.
  template <class T>
  void add_constants(const T* values, PackCache<T>& packs) const {
    packs.add({values, static_cast<std::size_t>(parameters_.size())});
  }

 private:
  std::variant<Seq2seq, Transformer> build();

  ModelConfig config_;
  Sizes sizes_;
  layers::Parameters parameters_;
  std::variant<Seq2seq, Transformer> model_;
};

}  // namespace rapt::inline v1::models
