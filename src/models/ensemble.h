#pragma once

#include <memory>
#include <vector>

#include "models/sequence_model.h"

namespace rapt::inline v1::models {

// One trained model, or several that answer together: the probability of a token is the mean of theirs.
class Ensemble {
 public:
  Ensemble(const SequenceModel& model, const float* values) { add(model, values); }

  // Models and values must outlive the ensemble. Throws if a model reads or writes another number of symbols.
  void add(const SequenceModel& model, const float* values);

  bool has_attention() const;  // all models have it
  // The longest target that search may give, end excluded, and whether models end there.
  std::int64_t longest_target(std::int64_t source) const;

  // The packed weights of decoders; they are not to outlive the values.
  std::shared_ptr<PackCache<float>> packs() const;
  std::unique_ptr<Decoder<float>> decoder(const Batch& sources, const std::shared_ptr<PackCache<float>>& packs) const;
  // The logits of the batch, [target_steps, batch, symbols]; for several models log probabilities. The tape owns the
  // memory.
  Tensor<float> logits(Tape<float>& tape, const Batch& batch) const;
  // The mean of the alignments.
  Alignment<float> alignment(const Batch& batch) const;

 private:
  struct Member {
    const SequenceModel* model;
    const float* values;
  };
  std::vector<Member> members_;
};

}  // namespace rapt::inline v1::models
