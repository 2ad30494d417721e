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

// Reads the arrays of the call anew before each run, as its owner may have changed them.
class GroupedForward final : public ForwardPass {
 public:
  GroupedForward(const Problem& problem, const Outputs& outputs, bool narrow)
      : given_(problem), given_outputs_(outputs), group_(problem.k.group), grouped_(problem), outputs_(outputs) {
    grouped_.heads /= group_;
    grouped_.queries = group_;
    grouped_.one_position = true;
    read();
    inner_ = tiled_forward(grouped_, outputs_, narrow);
  }

  void run() override {
    read();
    inner_->run();
  }

 private:
  void read() {
    grouped_.q = rows_of_groups(given_.q, group_);
    grouped_.k = own_group(given_.k);
    for (std::size_t s = 0; s < grouped_.v.size(); ++s) grouped_.v[s] = own_group(given_.v[s]);
    grouped_.dense_mask = given_.dense_mask;
    grouped_.dense_mask.row_stride = 0;
    grouped_.mask.key_lengths = given_.mask.key_lengths;
    grouped_.first_query = given_.first_query;
    for (std::size_t s = 0; s < outputs_.out.size(); ++s)
      outputs_.out[s] = rows_of_groups(given_outputs_.out[s], group_);
    outputs_.lse = rows_of_groups(given_outputs_.lse, group_);
  }

  static Operand own_group(Operand operand) {
    operand.group = 1;
    return operand;
  }

  const Problem& given_;
  const Outputs& given_outputs_;
  const std::int64_t group_;
  Problem grouped_;
  Outputs outputs_;
  std::unique_ptr<ForwardPass> inner_;
};

}  // namespace

bool groups_heads(const Problem& p, const Outputs& outputs) {
  const std::int64_t group = p.k.group;
  if (p.queries != 1 || group < 2 || p.q.group != 1 || !asks_plain(outputs) || !p.is_softmax()) return false;
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

}  // namespace rapt::inline v1
