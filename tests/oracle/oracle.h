#pragma once

#include <string>
#include <vector>

#include "oracle/problem.h"

// Attention by its definition, one row at a time, with the whole matrix of weights kept. It shares no code with the
// library: the two are independent implementations.
namespace oracle {

// Arithmetic of the evaluation: `exact` is double; `single` is a naive evaluation in float, the yardstick of error bounds;
// `bf16_weights` and `f16_weights` are that one with weights, and gradients of scores, rounded before they meet rows of
// numbers.
enum class Precision { exact, single, bf16_weights, f16_weights };

struct Forward {
  std::vector<Array> out;  // [B, H, Sq, Dv] each
  Array lse;               // [B, H, Sq, 1]; the threshold of sparsemax and entmax15, log Σ weights of sigmoid
  Array row_max;           // [B, H, Sq, 1], with the sink where there is one
  Array row_sum;           // [B, H, Sq, 1]: Σ exp(score − row_max)
  Array scores;            // [B, H, Sq, Sk], −inf where hidden
  Array weights;           // [B, H, Sq, Sk]
};

// Facts about each row of weights. Positions have one coordinate, or two on a grid. Keys are ranked by their scores.
struct Statistics {
  Array entropy;            // [B, H, Sq, 1]
  std::vector<Int> argmax;  // B·H·Sq; −1 where nothing is visible
  Array position;           // [B, H, Sq, 1 or 2]
  Array covariance;         // [B, H, Sq, 1 or 4]
  std::vector<Int> top_indices;
  Array top_weights;  // [B, H, Sq, top_k]
};

struct Gradients {
  Array q;
  Array k;
  std::vector<Array> v;
  Array bias;                               // empty without a bias
  std::map<std::string, Array> parameters;  // those of the normaliser too
};

Forward forward(const Problem& problem, Precision precision = Precision::exact);

// A distribution is weights divided by their sum; entropy is that of the weights as they are, but for sigmoid.
Statistics statistics(const Forward& forward, Normalizer normalizer, int top_k, std::array<Int, 2> grid = {},
                      Precision precision = Precision::exact);

// Reverse formulas. With `stored_out` the row sums Σ dO∘out are taken from it, as a backward pass does that is handed
// outputs rounded to a small type. `grad_lse` [B, H, Sq, 1]: the loss's gradient by lse, under softmax.
Gradients backward(const Problem& problem, const std::vector<Array>& grad_out, Precision precision = Precision::exact,
                   const std::vector<Array>* stored_out = nullptr, const Array* grad_lse = nullptr);

// How large each gradient would be if the gradients of the scores did not cancel each other, as those of every row do:
// what rounding errors are measured against.
Gradients gradient_sizes(const Problem& problem, const std::vector<Array>& grad_out, const Array* grad_lse = nullptr);

// Central differences of Σ out∘grad_out + Σ lse∘grad_lse: slow, but derived from nothing beyond forward().
Gradients finite_differences(const Problem& problem, const std::vector<Array>& grad_out, double step = 1e-5,
                             const Array* grad_lse = nullptr);

// One result from those of parts of the keys, in their order; lse = row_max + log row_sum.
Forward merge(const std::vector<Forward>& parts);

}  // namespace oracle
