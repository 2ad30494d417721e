#pragma once

#include <span>

#include "layers/graph.h"

namespace rapt::inline v1::models {

// What a decoding run needs of the attention to the source, when it is asked for: [batch, target_steps, source_steps],
// the mean over heads.
template <class T>
struct Alignment {
  std::vector<T> weights;
};

// Sources that were encoded once, and hypotheses that grow by one token at a time.
template <class T>
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Hypothesis n continues the former hypothesis parents[n] with tokens[n]; their number may change. In the first call
  // parents name sources. Returns the logits of what follows, [hypotheses, symbols], good until the next call.
  virtual const T* step(std::span<const int> tokens, std::span<const int> parents) = 0;

  virtual std::int64_t symbols() const = 0;

  // Attention layers tell the observer what each step asks of them, from here on.
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
