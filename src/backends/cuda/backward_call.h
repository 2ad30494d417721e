#pragma once

#include <algorithm>

#include "backends/cuda/prepared_call.h"
#include "backends/cuda/runtime/kernels.h"

namespace rapt::inline v1::cuda {

// What a backward call is given, what it wants, and arrays and sums for it.
class BackwardCall {
 public:
  BackwardCall(const Problem& problem, const BackwardRequest& request, Workspace& workspace)
      : problem_(problem),
        request_(request),
        wanted_(request.gradients),
        workspace_(workspace),
        stream_(workspace.stream()),
        prepared_(problem, workspace),
        call_(prepared_.call),
        programs_(*programs_of(problem)) {}

 protected:
  std::int64_t row_count() const { return problem_.row_count(); }

  const View* gradient_of(const ParameterValue& value) const {
    for (const NamedGradient& g : wanted_.parameters)
      if (g.name == value.spec->name) return &g.value;
    return nullptr;
  }
  const ParameterValue* wanted_parameter(Role role) const {
    const ParameterValue* value = problem_.find(role);
    return value && gradient_of(*value) ? value : nullptr;
  }

  // The array of a gradient of k or v, whose heads several of q may share.
  Array shared_by_heads(const View& view) const {
    Array a = array_of(view);
    a.group = static_cast<std::int32_t>(problem_.heads / view.shape[1]);
    return a;
  }

  // Rows that see keys outside the call: their statistics and δ cannot be computed from it.
  bool of_more_keys() const { return request_.saved && request_.saved->of_more_keys; }

  bool wants_values() const {
    for (const ParameterValue& value : problem_.parameters)
      if (value.given && value.spec->role == Role::value && gradient_of(value)) return true;
    return false;
  }

  bool wants_normalizer() const {
    for (const ParameterValue& value : problem_.normalizer_parameters)
      if (value.given && gradient_of(value) && !problem_.is_softmax()) return true;
    return false;
  }

  bool wants_tables() const {
    for (const ParameterValue& value : problem_.parameters)
      if (value.given && is_table(value.spec->role) && gradient_of(value)) return true;
    return false;
  }

  bool wants_sink() const {
    return problem_.is_softmax() && !problem_.normalizer_parameters.empty() &&
           problem_.normalizer_parameters[0].given && gradient_of(problem_.normalizer_parameters[0]);
  }

  // A gradient of every batch and head apart, in f32.
  Array apart(std::int64_t rows, std::int64_t dim, float*& data) {
    data = workspace_.take<float>(problem_.batch * problem_.heads * rows * dim);
    return contiguous_array(data, problem_.batch, problem_.heads, rows, dim);
  }

  // Whether each batch and head of the problem has rows of its own there.
  bool is_apart(const View& view) const { return view.shape[0] == problem_.batch && view.shape[1] == problem_.heads; }

  // Whether all that is given and wanted has 16 bits, so that weights may be rounded to them.
  bool pairs_are_low() const {
    bool low = true;
    const auto has_storage = [&](const View& view) {
      return !view || (view.dtype == call_.storage && is_aligned(array_of(view)));
    };
    for (const View& view : wanted_.v) low = low && has_storage(view);
    return low && has_storage(wanted_.q) && has_storage(wanted_.k);
  }

  // As many groups of keys as fill an H200, two blocks a multiprocessor, with the least time lost at their ends. The sums'
  // order follows from it, so that it is counted from sizes alone.
  int pair_groups(std::int64_t heads) const {
    constexpr std::int64_t kBlocks = 264, kMost = 64;
    const auto tiles = [](std::int64_t rows) { return (rows + kTile - 1) / kTile; };
    const std::int64_t most = std::min({tiles(problem_.queries), tiles(problem_.keys), kMost});
    std::int64_t best = 1, least = 0;
    for (std::int64_t groups = 1; groups <= most; ++groups) {
      const auto each = [&](std::int64_t rows) { return (tiles(rows) + groups - 1) / groups; };
      const std::int64_t waves = (heads * groups + kBlocks - 1) / kBlocks;
      // In eighths of a tile's time; a launch costs about one.
      const std::int64_t time = groups * (8 * waves * each(problem_.queries) * each(problem_.keys) + 1);
      if (groups == 1 || time < least) best = groups, least = time;
    }
    return static_cast<int>(best);
  }

  BiasGradient bias_gradient() const {
    const View& target = wanted_.bias;
    BiasGradient gradient;
    gradient.out = array_of(target);
    gradient.batches = static_cast<std::int32_t>(target.shape[0]);
    gradient.heads = static_cast<std::int32_t>(target.shape[1]);
    gradient.rows = static_cast<std::int32_t>(target.shape[2]);
    return gradient;
  }

  void store_sum(PartSums sums, const float* parts, std::int64_t stride, std::int64_t first, std::int64_t size,
                 const ParameterValue& value) {
    const View* target = gradient_of(value);
    if (!target) return;
    if (!parts) return store_zeros(*target, stream_);
    sums.parts = parts;
    sums.stride = stride;
    sums.first = first;
    sums.size = size;
    sums.per_head = value.per_head;
    sums.gate = arguments_.gate;
    sum_parts(sums, *target, stream_);
  }

  const Problem& problem_;
  const BackwardRequest& request_;
  const Gradients& wanted_;
  Workspace& workspace_;
  cudaStream_t stream_;
  PreparedCall prepared_;
  const Call& call_;
  const Programs& programs_;
  BackwardArguments arguments_;
};

}  // namespace rapt::inline v1::cuda
