#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "oracle/problem.h"

// How a row of scores becomes weights, and the reverse: written from the definitions.
namespace oracle {

// One row of one head: what is between the formula and the weights.
template <class T>
struct Row {
  std::vector<T> cap_slopes;  // of the softcap
  std::vector<T> scores;      // −inf where hidden
  std::vector<T> weights;
  std::vector<T> slopes;  // u of ∂s = u∘(∂w − Σ u·∂w/Σu)
  T lse = -std::numeric_limits<T>::infinity();
  T largest = -std::numeric_limits<T>::infinity();
  T sum = T(0);   // Σ exp(score − largest), under softmax
  T sink = T(0);  // the weight of the sink
};

// A normaliser with its parameters for one head.
template <class T>
struct Rule {
  Normalizer normalizer = Normalizer::softmax;
  std::optional<T> sink;
  T b = T(0);
};

// From row.scores to all the rest.
template <class T>
void normalize(const Rule<T>& rule, Row<T>& row);

template <class T>
struct RowGradient {
  std::vector<T> scores;
  T parameter = T(0);  // of the sink, or of b
};

// Which terms are added up: as they are, or their sizes, which do not cancel.
enum class Terms { signed_values, sizes };

// From the gradients of weights (0 where a weight is 0) and of lse. `mean` is Σ w·∂w where it comes from stored outputs.
template <class T>
RowGradient<T> reverse_row(const Rule<T>& rule, const Row<T>& row, const std::vector<T>& d_weights, T d_lse,
                           std::optional<T> mean, Terms terms);

}  // namespace oracle
