#include "models/sequence_model.h"

namespace rapt::models {

SequenceModel::SequenceModel(const ModelConfig& config, const Sizes& sizes)
    : config_(config), sizes_(sizes), model_(build()) {}

std::variant<Seq2seq, Transformer> SequenceModel::build() {
  if (config_.kind == Kind::transformer) return Transformer(config_.transformer, sizes_, parameters_);
  return Seq2seq(config_.seq2seq, sizes_, parameters_);
}

bool SequenceModel::has_attention() const {
  return config_.kind == Kind::transformer || config_.seq2seq.attention != "none";
}

}  // namespace rapt::models
