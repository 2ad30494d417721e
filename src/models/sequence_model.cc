#include "models/sequence_model.h"

namespace rapt::inline v1::models {

SequenceModel::SequenceModel(const ModelConfig& config, const Sizes& sizes)
    : config_(config), sizes_(sizes), model_(build()) {}

std::variant<Seq2seq, Transformer> SequenceModel::build() {
  if (config_.kind == Kind::transformer) return Transformer(config_.transformer, sizes_, parameters_);
  return Seq2seq(config_.seq2seq, sizes_, parameters_);
}

bool SequenceModel::has_attention() const {
  return config_.kind == Kind::transformer || config_.seq2seq.attention != "none";
}

std::string SequenceModel::alignment_name() const {
  if (config_.kind == Kind::seq2seq) return "attention of the decoder to the source";
  const TransformerConfig& m = config_.transformer;
  return "cross-attention of decoder layer " + std::to_string(m.layers - 1) +
         (m.heads == 1 ? ", head 0" : ", mean of heads 0 to " + std::to_string(m.heads - 1));
}

bool SequenceModel::has_length_limit() const {
  const auto* seq2seq = std::get_if<Seq2seq>(&model_);
  return !seq2seq || seq2seq->has_length_limit();
}

}  // namespace rapt::inline v1::models
