#include "backends/cpu/grouped_heads.h"

#include <algorithm>

#include "backends/cpu/engine.h"
#include "rapt/tiles.h"

namespace rapt::inline v1 {
namespace {

// [B, H, 1, D] seen as [B, H / group, group, D].
Operand rows_of_groups(Operand operand, std::int64_t group) {
  operand.rows = group;
  operand.row_stride = operand.head_stride;
  operand.head_stride *= group;
  operand.heads /= group;
  return operand;
}

View rows_of_groups(View view, std::int64_t group) {
  if (!view) return view;
  view.shape[1] /= group;
  view.shape[2] = group;
  view.strides[2] = view.strides[1];
  view.strides[1] *= group;
  return view;
}

Operand own_group(Operand operand) {
  operand.group = 1;
  return operand;
}

// Makes `grouped`, a copy of the problem, one of as many queries as a group has heads.
void set_groups(const Problem& given, Problem& grouped) {
  const std::int64_t group = given.k.group;
  grouped.heads = given.heads / group;
  grouped.queries = group;
  grouped.one_position = true;
  grouped.q = rows_of_groups(given.q, group);
  grouped.k = own_group(given.k);
  for (std::size_t s = 0; s < grouped.v.size(); ++s) grouped.v[s] = own_group(given.v[s]);
  grouped.dense_mask = given.dense_mask;
  grouped.dense_mask.row_stride = 0;
  grouped.mask.key_lengths = given.mask.key_lengths;
  grouped.first_query = given.first_query;
}

// Reads the arrays of the call anew before each run, as its owner may have changed them.
class GroupedForward final : public ForwardPass {
 public:
  GroupedForward(const Problem& problem, const Outputs& outputs, bool narrow)
      : given_(problem), given_outputs_(outputs), group_(problem.k.group), grouped_(problem), outputs_(outputs) {
    read();
    inner_ = tiled_forward(grouped_, outputs_, narrow);
  }

  void run() override {
    read();
    inner_->run();
  }

 private:
  void read() {
    set_groups(given_, grouped_);
    for (std::size_t s = 0; s < outputs_.out.size(); ++s)
      outputs_.out[s] = rows_of_groups(given_outputs_.out[s], group_);
    outputs_.lse = rows_of_groups(given_outputs_.lse, group_);
  }

  const Problem& given_;
  const Outputs& given_outputs_;
  const std::int64_t group_;
  Problem grouped_;
  Outputs outputs_;
  std::unique_ptr<ForwardPass> inner_;
};

}  // namespace

bool groups_heads(const Problem& p) {
  const std::int64_t group = p.k.group;
  if (p.queries != 1 || group < 2 || p.q.group != 1 || !p.is_softmax()) return false;
  if (std::ranges::any_of(p.v, [&](const Operand& v) { return v.group != group; })) return false;
  // What differs between the heads of a group, or is asked of a query's position, stays with them.
  const auto given = [](const ParameterValue& value) { return value.given; };
  if (std::ranges::any_of(p.parameters, given) || std::ranges::any_of(p.normalizer_parameters, given)) return false;
  const TileProgram<float>& program = p.mechanism->definition().scalar.get<float>();
  return p.uses_content && !program.raw && !program.score && !program.hide && !p.mechanism->unit_rows() && !p.bias &&
         p.mask.query_starts.empty() && (!p.dense_mask || p.dense_mask.heads == 1);
}

std::unique_ptr<ForwardPass> grouped_forward(const Problem& problem, const Outputs& outputs, bool narrow) {
  return std::make_unique<GroupedForward>(problem, outputs, narrow);
}

void grouped_backward(const Problem& problem, const BackwardRequest& request, const Saved::Rows& rows) {
  const std::int64_t group = problem.k.group;
  Problem grouped = problem;
  set_groups(problem, grouped);
  BackwardRequest own = request;
  for (Operand& out : own.out) out = rows_of_groups(out, group);
  for (Operand& grad : own.grad_out) grad = rows_of_groups(grad, group);
  if (own.grad_lse) own.grad_lse = rows_of_groups(own.grad_lse, group);
  own.gradients.q = rows_of_groups(own.gradients.q, group);
  tiled_backward(grouped, own, rows);
}

}  // namespace rapt::inline v1
