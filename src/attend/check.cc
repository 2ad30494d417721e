#include "attend/check.h"

#include <string>
#include <utility>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

[[noreturn]] void refuse_call(const char* operation, const std::string& what) {
  throw Error(std::string(operation) + ": " + what);
}

void check_statistic(const char* op, const Problem& p, const char* name, const View& view, std::int64_t size) {
  if (!view) return;
  if (view.device != p.device)
    refuse_call(op, std::string("statistics: ") + name + ": expected an array on " + to_string(p.device) +
                        " as q is, got one on " + to_string(view.device));
  const std::int64_t want = p.batch * p.heads * p.queries * size;
  if (element_count(view.shape) != want || view.strides != contiguous_strides(view.shape))
    refuse_call(op, std::string("statistics: ") + name + ": expected a contiguous array of " + counted(want, "number") +
                        ", got shape " + to_string(view.shape));
  const Dtype dtype = p.is_double ? Dtype::f64 : Dtype::f32;
  if (view.dtype != dtype)
    refuse_call(op, std::string("statistics: ") + name + ": expected " + name_of(dtype) + ", the compute type, got " +
                        name_of(view.dtype));
}

void check_partial(const char* op, const Problem& p, const Outputs& outputs) {
  for (const auto& [name, view] : {std::pair{"row_max", &outputs.row_max}, std::pair{"row_sum", &outputs.row_sum}}) {
    if (!*view) continue;
    check_view(op, name, *view, {p.batch, p.heads, p.queries, 1}, p.device, Access::write);
    const Dtype dtype = p.is_double ? Dtype::f64 : Dtype::f32;
    if (view->dtype != dtype)
      refuse_call(
          op, std::string(name) + ": expected " + name_of(dtype) + ", the compute type, got " + name_of(view->dtype));
    if (!p.is_softmax())
      refuse_call(op, std::string(name) + ": expected the normaliser softmax, whose parts can be merged, got " +
                          std::string(p.normalizer->info.name));
  }
}

}  // namespace

void check_view(const char* op, const std::string& name, const ConstView& view, const Shape& shape,
                const Device& device, Access access) {
  if (view.shape != shape)
    refuse_call(op, name + ": expected shape " + to_string(shape) + ", got " + to_string(view.shape));
  make_operand(op, name.c_str(), view);
  if (view.device != device)
    refuse_call(
        op, name + ": expected an array on " + to_string(device) + " as q is, got one on " + to_string(view.device));
  if (access == Access::read || element_count(view.shape) == 0) return;
  for (std::size_t n = 0; n < 4; ++n)
    if (view.shape[n] > 1 && view.strides[n] == 0)
      refuse_call(op, name + ": expected strides above 0, so that rows are not written over each other, got " +
                          to_string(view.strides));
}

Shape output_shape(const Problem& p, std::size_t set) { return {p.batch, p.heads, p.queries, p.v[set].dim}; }

std::string indexed(const char* name, std::size_t n) { return std::string(name) + "[" + std::to_string(n) + "]"; }

void check_outputs(const char* op, const Problem& p, const Outputs& outputs) {
  check_partial(op, p, outputs);
  if (!outputs.out.empty() && outputs.out.size() != p.v.size())
    refuse_call(op, "out: expected " + counted(p.v.size(), "array") + ", one for each value set, got " +
                        std::to_string(outputs.out.size()));
  for (std::size_t s = 0; s < outputs.out.size(); ++s)
    check_view(op, indexed("out", s), outputs.out[s], output_shape(p, s), p.device, Access::write);
  if (outputs.lse) check_view(op, "lse", outputs.lse, {p.batch, p.heads, p.queries, 1}, p.device, Access::write);
  for (std::size_t n = 0; n < outputs.weights.size(); ++n) {
    const WeightsRequest& w = outputs.weights[n];
    const std::string name = indexed("weights", n);
    if (w.batch < 0 || w.batch >= p.batch)
      refuse_call(op, name + ": expected a batch from 0 to " + std::to_string(p.batch - 1) + ", got " +
                          std::to_string(w.batch));
    if (w.head < 0 || w.head >= p.heads)
      refuse_call(
          op, name + ": expected a head from 0 to " + std::to_string(p.heads - 1) + ", got " + std::to_string(w.head));
    if (w.row_begin < 0 || w.row_end > p.queries ||
        (p.queries > 0 ? w.row_begin >= w.row_end : w.row_begin > w.row_end))
      refuse_call(op, name + ": expected a range of rows within 0 to " + std::to_string(p.queries) + ", got " +
                          std::to_string(w.row_begin) + " to " + std::to_string(w.row_end));
    check_view(op, name, w.out, {1, 1, w.row_end - w.row_begin, p.keys}, p.device, Access::write);
  }
  const Statistics& s = outputs.statistics;
  const bool grid = s.grid[0] != 0 || s.grid[1] != 0;
  if (grid &&
      (s.grid[0] < 1 || s.grid[1] < 1 || s.grid[0] > p.keys || s.grid[1] > p.keys || s.grid[0] * s.grid[1] != p.keys))
    refuse_call(op, "statistics: grid: expected rows,cols with rows·cols = " + std::to_string(p.keys) + ", got " +
                        std::to_string(s.grid[0]) + "," + std::to_string(s.grid[1]));
  if (s.top_k < 0 || s.top_k > p.keys)
    refuse_call(op, "statistics: top_k: expected 0 to " + std::to_string(p.keys) + ", got " + std::to_string(s.top_k));
  if (s.top_k == 0 && (s.top_indices || s.top_weights))
    refuse_call(op, "statistics: top_k: expected 1 or more where top_indices or top_weights are wanted, got 0");
  check_statistic(op, p, "entropy", s.entropy, 1);
  check_statistic(op, p, "position", s.position, grid ? 2 : 1);
  check_statistic(op, p, "covariance", s.covariance, grid ? 4 : 1);
  check_statistic(op, p, "top_weights", s.top_weights, s.top_k);
}

void check_gradients(const char* op, const Problem& p, const Inputs& inputs, const AttendOptions& options,
                     const Gradients& g) {
  if (g.q) check_view(op, "gradient of q", g.q, inputs.q.shape, p.device, Access::write);
  if (g.k) check_view(op, "gradient of k", g.k, inputs.k.shape, p.device, Access::write);
  if (!g.v.empty() && g.v.size() != p.v.size())
    refuse_call(op, "gradient of v: expected " + counted(p.v.size(), "array") + ", one for each value set, got " +
                        std::to_string(g.v.size()));
  for (std::size_t s = 0; s < g.v.size(); ++s)
    if (g.v[s]) check_view(op, "gradient of " + indexed("v", s), g.v[s], inputs.v[s].shape, p.device, Access::write);
  if (g.bias) {
    if (!p.bias) refuse_call(op, "gradient of bias: expected none, as there is no bias, got an array");
    check_view(op, "gradient of bias", g.bias, options.bias.shape, p.device, Access::write);
  }
  for (std::size_t n = 0; n < g.parameters.size(); ++n) {
    const NamedGradient& wanted = g.parameters[n];
    const NamedView* given = nullptr;
    for (const auto* list : {&options.score.parameters, &options.normalizer_parameters})
      for (const NamedView& value : *list)
        if (value.name == wanted.name) given = &value;
    if (!given)
      refuse_call(op, "gradient of parameter '" + wanted.name +
                          "': expected none, as no such parameter was given, got an array");
    for (std::size_t m = 0; m < n; ++m)
      if (g.parameters[m].name == wanted.name)
        refuse_call(op, "gradient of parameter '" + wanted.name + "': expected once, got twice");
    check_view(op, "gradient of parameter '" + wanted.name + "'", wanted.value, given->value.shape, p.device,
               Access::write);
  }
}

}  // namespace rapt::inline v1
