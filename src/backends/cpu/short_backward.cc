#include <algorithm>

#include "backends/cpu/engine.h"
#include "backends/cpu/head_waves.h"
#include "backends/cpu/short_heads.h"

// Gradients of short sequences: a task takes whole heads, with all that share their keys and values, so no task waits and
// nothing is added up between tasks.
namespace rapt::inline v1 {
namespace {

// Heads that share a gradient's matrix follow each other. 0: some matrix is shared by batches, or by heads that are in no
// such order.
std::int64_t heads_together(const Problem& p) {
  std::int64_t unit = std::max(p.q.group, p.k.group);
  for (const Operand& v : p.v) unit = std::max(unit, v.group);
  const auto fits = [&](const Operand& o) { return o.batches == p.batch && unit % o.group == 0; };
  return fits(p.q) && fits(p.k) && std::ranges::all_of(p.v, fits) ? unit : 0;
}

// Products of bf16 pairs, where what they take beside the arithmetic is less than they save.
template <class T>
const Bf16Kernels* pair_products(const Problem& p, const BackwardRequest& request, std::int64_t unit, bool hides) {
  constexpr std::int64_t kFewestPairs = 24 * 24;
  const auto narrow = [](const Operand& o) { return o.dtype == Dtype::bf16; };
  const Bf16Kernels* const kernels = std::is_same_v<T, float> ? active_bf16(p.isa) : nullptr;
  if (!kernels || !kernels->exact || unit > 1 || hides || p.queries * p.keys < kFewestPairs) return nullptr;
  return all_narrow(request) && narrow(p.q) && narrow(p.k) && std::ranges::all_of(p.v, narrow) ? kernels : nullptr;
}

template <class T>
bool run_short(const Problem& p, const BackwardRequest& request, const Saved::Rows& rows) {
  // Sums of rows of which only some keys are here are known to others.
  if (p.v.empty() || p.queries > kShort || p.keys > kShort || !p.is_softmax() || p.normalizer_parameters[0].given ||
      rows.of_more_keys)
    return false;
  const std::int64_t unit = heads_together(p);
  const Kernels<T>& kernels = kernels_for<T>(p.isa);
  const HeadWaves<T> heads(p, kernels, true, all_narrow(request));
  if (unit == 0 || !heads.is_plain_product()) return false;

  const Gradients& gradients = request.gradients;
  const auto gradient = [](const View& view, const Operand& of) {
    if (!view) return ShortArray{};
    Operand operand = make_operand("attend_backward", "gradient", view);
    operand.group = of.group;
    return short_array(operand);
  };
  std::vector<ShortValues> values;
  std::vector<std::int64_t> value_dim;
  std::vector<ShortArray> grad_out, dv;
  double products = 3 * static_cast<double>(p.inner);
  for (std::size_t s = 0; s < p.v.size(); ++s) {
    values.push_back({short_array(p.v[s]), p.v[s].dim});
    value_dim.push_back(p.v[s].dim);
    grad_out.push_back(short_array(request.grad_out[s]));
    dv.push_back(gradient(s < gradients.v.size() ? gradients.v[s] : View{}, p.v[s]));
    products += 2 * static_cast<double>(p.v[s].dim);
  }
  Saved::Rows& own = const_cast<Saved::Rows&>(rows);
  ShortBackwardTask<T> task;
  task.heads = p.heads;
  task.queries = p.queries;
  task.keys = p.keys;
  task.dim = static_cast<int>(p.inner);
  task.scale = static_cast<T>(p.scale);
  task.q = short_array(p.q);
  task.k = short_array(p.k);
  task.dq = gradient(gradients.q, p.q);
  task.dk = gradient(gradients.k, p.k);
  task.sets = static_cast<int>(values.size());
  task.v = values.data();
  task.grad_out = grad_out.data();
  task.dv = dv.data();
  if (request.grad_lse) task.grad_lse = short_array(request.grad_lse);
  task.row_max = own.max<T>();
  task.row_sum = own.sum<T>();
  task.visibility = heads.visibility().is_whole() ? nullptr : &heads.visibility();
  task.value_dim = value_dim.data();
  task.bf16 = pair_products<T>(p, request, unit, task.visibility != nullptr);

  const ShortShare share(p, products, unit);
  const std::size_t bytes = kernels.short_backward_workspace(task);
  std::vector<Buffer> workspaces;
  for (int t = 0; t < share.workers; ++t) workspaces.emplace_back(bytes);
  const std::int64_t total = p.batch * p.heads;
  parallel_for((total + share.heads - 1) / share.heads, share.workers, [&](std::int64_t n, int worker) {
    kernels.short_backward(task, n * share.heads, std::min(share.heads, total - n * share.heads),
                           workspaces[static_cast<std::size_t>(worker)].template as<char>());
  });
  return true;
}

}  // namespace

bool short_backward(const Problem& problem, const BackwardRequest& request, const Saved::Rows& rows) {
  return problem.is_double ? run_short<double>(problem, request, rows) : run_short<float>(problem, request, rows);
}

}  // namespace rapt::inline v1
