#include "backends/cuda/factorized/factorized.h"

#include "attend/grid_form.h"
#include "backends/cuda/factorized/moments.h"
#include "backends/cuda/factorized/passes.h"
#include "rapt/tiles.h"

namespace rapt::inline v1::cuda::factorized {
namespace {

const FactorizedPrograms& programs_for(const Problem& problem) { return *programs_of(problem)->factorized; }

bool factorizes(const Problem& problem) {
  const Programs* programs = programs_of(problem);
  return programs && programs->factorized && problem.path == Path::automatic && problem.keys > 0 &&
         may_factorize(problem) && has_separate_axes(*problem.mechanism, problem.object);
}

}  // namespace

bool takes(const Problem& problem, const Outputs& outputs) {
  for (std::size_t n = 0; n < outputs.out.size(); ++n)
    if (outputs.out[n] && outputs.out[n].dtype != problem.v[n].dtype) return false;
  return asks_plain(outputs) && factorizes(problem);
}

bool takes_gradients(const Problem& problem, const BackwardRequest& request) {
  if (request.grad_lse) return false;
  const std::vector<View>& dv = request.gradients.v;
  for (std::size_t n = 0; n < problem.v.size(); ++n) {
    const Dtype dtype = problem.v[n].dtype;
    if (request.grad_out[n].dtype != dtype || (n < dv.size() && dv[n] && dv[n].dtype != dtype)) return false;
  }
  return factorizes(problem);
}

void forward(const Problem& problem, const Call& call, const ForwardOutputs& outputs, Workspace& workspace) {
  const FactorizedPrograms& programs = programs_for(problem);
  const Axes axes = make_axes(call, problem.scale, static_cast<int>(problem.grid[0]), programs, false, workspace);
  store_rows(call, axes, outputs.rows, outputs.lse, workspace.stream());
  for (int n = 0; n < call.sets; ++n) {
    if (!outputs.out[n].data) continue;
    GridProduct product;
    product.in = call.v[n];
    product.out = outputs.out[n];
    product.in_batches = product.out_batches = call.batch;
    product.in_heads = product.out_heads = call.heads;
    multiply_grid(axes, product, workspace);
  }
  programs.forward_again(call, outputs, axes.redo, workspace.stream());
  check(cudaGetLastError(), "forward");
}

Gradients backward(const Problem& problem, const Call& call, const BackwardRequest& request, bool wants_values,
                   Workspace& workspace) {
  const Axes axes =
      make_axes(call, problem.scale, static_cast<int>(problem.grid[0]), programs_for(problem), true, workspace);
  Gradients gradients;
  gradients.redo = axes.redo;
  gradients.rows = {workspace.take<float>(problem.row_count()), workspace.take<float>(problem.row_count())};
  store_rows(call, axes, gradients.rows, {}, workspace.stream());
  for (std::size_t n = 0; n < request.gradients.v.size(); ++n) {
    const View& dv = request.gradients.v[n];
    if (!dv) continue;
    GridProduct product;
    product.in = array_of(request.grad_out[n]);
    product.out = array_of(dv);
    product.in_batches = call.batch;
    product.in_heads = call.heads;
    product.out_batches = static_cast<std::int32_t>(dv.shape[0]);
    product.out_heads = static_cast<std::int32_t>(dv.shape[1]);
    product.to_keys = true;
    multiply_grid(axes, product, workspace);
  }
  if (!wants_values) return gradients;
  std::vector<ValueSet> sets;
  for (std::size_t n = 0; n < problem.v.size(); ++n)
    if (problem.v[n].dim > 0) sets.push_back({call.v[n], array_of(request.grad_out[n])});
  gradients.values = form_gradients(call, axes, sets, problem.mechanism->definition().slots, workspace);
  return gradients;
}

}  // namespace rapt::inline v1::cuda::factorized
