#include "rapt/attend.h"

#include <string>

#include "attend/backend.h"
#include "attend/check.h"
#include "attend/counted.h"
#include "attend/inner_call.h"
#include "rapt/error.h"
#include "rapt/tiles.h"

namespace rapt::inline v1 {
namespace {

[[noreturn]] void refuse_attend(const char* operation, const std::string& what) {
  throw Error(std::string(operation) + ": " + what);
}

void run_forward(const OuterCall* outer, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options) {
  Problem problem = make_problem("attend", inputs, options, outer);
  check_outputs("attend", problem, outputs);
  choose_backend("attend", problem, {.outputs = &outputs});
  if (outputs.saved) outputs.saved->rows()->resize(problem.row_count(), problem.is_double, problem.device);
  if (!problem.is_empty()) problem.backend->forward(problem, outputs)->run();
}

// `means`: where δ of every row goes instead of gradients; null: nowhere.
void run_backward(const OuterCall* outer, const Inputs& inputs, const std::vector<ConstView>& out,
                  const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                  const AttendOptions& options, const ConstView& grad_lse, std::vector<double>* means = nullptr) {
  const char* op = "attend_backward";
  Problem problem = make_problem(op, inputs, options, outer);
  const auto operands = [&](const char* name, const std::vector<ConstView>& views) {
    if (views.size() != problem.v.size())
      refuse_attend(op, std::string(name) + ": expected " + counted(problem.v.size(), "array") +
                            ", one for each value set, got " + std::to_string(views.size()));
    std::vector<Operand> list;
    for (std::size_t s = 0; s < views.size(); ++s) {
      check_view(op, indexed(name, s), views[s], output_shape(problem, s), problem.device, Access::read);
      list.push_back(make_operand(op, name, views[s]));
    }
    return list;
  };
  BackwardRequest request;
  request.means = means;
  request.out = operands("out", out);
  request.grad_out = operands("grad_out", grad_out);
  if (grad_lse) {
    if (!problem.is_softmax())
      refuse_attend(op, "grad_lse: expected the normaliser softmax, got " + std::string(problem.normalizer->info.name));
    check_view(op, "grad_lse", grad_lse, {problem.batch, problem.heads, problem.queries, 1}, problem.device,
               Access::read);
    request.grad_lse = make_operand(op, "grad_lse", grad_lse);
  }
  check_gradients(op, problem, inputs, options, gradients);
  request.gradients = gradients;
  const std::int64_t rows = problem.row_count();
  if (saved && saved->rows() && saved->rows()->count > 0) {
    if (saved->rows()->count != rows || saved->rows()->is_double != problem.is_double)
      refuse_attend(op, "saved: expected the " + counted(rows, "row") + " of the same forward pass, got " +
                            std::to_string(saved->rows()->count));
    if (saved->rows()->device != problem.device)
      refuse_attend(op, "saved: expected the rows of a pass on " + to_string(problem.device) +
                            ", got those of one on " + to_string(saved->rows()->device));
    request.saved = saved->rows();
  }
  choose_backend(op, problem, {.backward = &request});
  problem.backend->backward(problem, request);
}

}  // namespace

bool asks_statistics(const Statistics& s) { return s.entropy || s.argmax || s.position || s.covariance || s.top_k > 0; }
bool asks_plain(const Outputs& outputs) {
  return outputs.weights.empty() && !asks_statistics(outputs.statistics) && !outputs.row_max && !outputs.row_sum;
}

void attend(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options) {
  run_forward(nullptr, inputs, outputs, options);
}

void attend(const ConstView& q, const ConstView& k, const ConstView& v, const View& out, const AttendOptions& options) {
  Outputs outputs;
  outputs.out = {out};
  attend(Inputs{q, k, {v}}, outputs, options);
}

void attend_backward(const Inputs& inputs, const std::vector<ConstView>& out, const std::vector<ConstView>& grad_out,
                     const Saved* saved, const Gradients& gradients, const AttendOptions& options,
                     const ConstView& grad_lse) {
  run_backward(nullptr, inputs, out, grad_out, saved, gradients, options, grad_lse);
}

bool hooks_see_outer(const Problem& problem) {
  const MechanismDefinition& hooks = problem.mechanism->definition();
  return problem.is_inner() && (hooks.entry == nullptr || hooks.reads_call);
}

void attend_within(const OuterCall& outer, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options) {
  run_forward(&outer, inputs, outputs, options);
}

void attend_backward_within(const OuterCall& outer, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, const ConstView& grad_lse) {
  run_backward(&outer, inputs, out, grad_out, saved, gradients, options, grad_lse);
}

void find_row_means(const OuterCall& outer, const Inputs& inputs, const std::vector<ConstView>& out,
                    const std::vector<ConstView>& grad_out, Saved& saved, const AttendOptions& options,
                    const ConstView& grad_lse) {
  run_backward(&outer, inputs, out, grad_out, &saved, {}, options, grad_lse, &saved.rows()->means);
}

}  // namespace rapt::inline v1
