#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attend/problem.h"

namespace rapt::inline v1 {

// The arguments of a backward call, checked.
struct BackwardRequest {
  std::vector<Operand> out;
  std::vector<Operand> grad_out;
  Operand grad_lse;                    // data null: none
  const Saved::Rows* saved = nullptr;  // null: to be computed again
  Gradients gradients;
  std::vector<double>* means = nullptr;  // not null: δ of every row is wanted, and no gradient
};

// A forward pass made ready. run() computes it with the arrays, lengths and positions that the problem has by then; sizes,
// types, strides and options stay. In the steady state it allocates nothing.
class ForwardPass {
 public:
  virtual ~ForwardPass() = default;
  virtual void run() = 0;

 protected:
  ForwardPass() = default;
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;
};

// What is asked of a problem: outputs or gradients.
struct Request {
  const Outputs* outputs = nullptr;
  const BackwardRequest* backward = nullptr;
};

// One way to compute a problem. attend() asks each in turn, and the first that takes the call computes it.
struct Backend {
  const char* name;
  // False: `why` says in a sentence what keeps it from taking the call.
  bool (*takes)(const Problem& problem, const Request& request, std::string& why);
  // The problem is theirs to complete, for example by the numbers of parameters. Outputs and gradients are checked. A
  // pass keeps both references.
  std::unique_ptr<ForwardPass> (*forward)(Problem& problem, const Outputs& outputs);
  void (*backward)(Problem& problem, const BackwardRequest& request);
};

// In the order in which they are asked.
std::span<const Backend* const> backends();

// Sets problem.backend to the one that takes the call; if there is none, throws rapt::Error with every backend's
// reason.
void choose_backend(const char* operation, Problem& problem, const Request& request);

}  // namespace rapt::inline v1
