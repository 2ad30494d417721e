#pragma once

#include <memory>
#include <span>

#include "layers/graph.h"
#include "tensor/pack_cache.h"

namespace rapt::inline v1::models {

// The attention to the source, where it is requested: [batch, target_steps, source_steps], the mean over heads.
template <class T>
struct Alignment {
  std::vector<T> weights;
};

// Encoded sources, and hypotheses that grow by one token at a time.
template <class T>
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Hypothesis n continues the previous hypothesis parents[n] with tokens[n]; their number may change. In the first
  // call parents name sources. Returns the logits of the next token, [hypotheses, symbols], valid until the next call.
  virtual const T* step(std::span<const int> tokens, std::span<const int> parents) = 0;

  virtual std::int64_t symbols() const = 0;

  // From now on attention layers report their calls to the observer.
  void observe(layers::AttentionObserver<T>& observer) { observer_ = &observer; }

 protected:
  // The computation of one step.
  layers::Graph<T> step_graph(Tape<T>& tape, const layers::Parameters& parameters, const T* values) const {
    layers::Graph<T> graph(tape, parameters, values, nullptr);
    if (observer_) graph.observe(*observer_);
    return graph;
  }

 private:
  layers::AttentionObserver<T>* observer_ = nullptr;
};

}  // namespace rapt::inline v1::models
