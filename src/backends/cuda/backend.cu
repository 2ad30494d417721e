#include "backends/cuda/backend.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "attend/inner_call.h"
#include "backends/cuda/backward.h"
#include "backends/cuda/dense.h"
#include "backends/cuda/factorized/factorized.h"
#include "backends/cuda/joined_values.h"
#include "backends/cuda/largest_rows.h"
#include "backends/cuda/prepared_call.h"
#include "backends/cuda/runtime/kernels.h"
#include "backends/cuda/saved_rows.h"

namespace rapt::inline v1 {
namespace {

using namespace cuda;

// Empty: the kernels run on that device.
std::string device_refusal(int index) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  if (count == 0) return "expected a CUDA device, found none";
  if (index < 0 || index >= count)
    return "expected a device from 0 to " + std::to_string(count - 1) + ", got " + std::to_string(index);
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
  if (major == 9 && minor == 0) return "";
  return "expected a device of compute capability 9.0, got " + std::to_string(major) + "." + std::to_string(minor);
}

std::string refusal(const Problem& problem, const Request& request) {
  if (problem.device.kind != Device::Kind::cuda)
    return "expected arrays on cuda, got arrays on " + to_string(problem.device);
  if (problem.path == Path::reference) return "the reference path was asked for, which runs on a cpu";
  if (problem.is_double) return "expected f32, bf16 or f16, got f64";
  if (const std::string why = run_time_refusal(problem, request.backward); !why.empty()) return why;
  if (hooks_see_outer(problem))
    return "expected a whole call where hooks may read how many queries and keys it has, got a part of one";
  if (!programs_of(problem))
    return "the mechanism '" + std::string(problem.mechanism->name()) + "' has no kernels for a device";
  if (problem.v.size() > kMaxValueSets)
    return "expected at most " + std::to_string(kMaxValueSets) + " value sets, got " + std::to_string(problem.v.size());
  constexpr std::int64_t kMost = (std::int64_t{1} << 22) - 1;  // 65,535 tiles
  if (problem.queries > kMost || problem.keys > kMost)
    return "expected at most " + std::to_string(kMost) + " queries and keys, got " + std::to_string(problem.queries) +
           " and " + std::to_string(problem.keys);
  return device_refusal(problem.device.index);
}

bool takes(const Problem& problem, const Request& request, std::string& why) {
  why = refusal(problem, request);
  return why.empty();
}

class Pass final : public ForwardPass {
 public:
  Pass(Problem& problem, const Outputs& outputs) : problem_(problem), outputs_(outputs) {}

  void run() override {
    const DeviceScope scope(problem_.device.index);
    Workspace workspace(static_cast<cudaStream_t>(problem_.stream));
    PreparedCall prepared(problem_, workspace);
    const Programs& programs = *programs_of(problem_);
    ForwardOutputs to;
    for (std::size_t n = 0; n < outputs_.out.size(); ++n) to.out[n] = array_of(outputs_.out[n]);
    if (outputs_.lse) to.lse = array_of(outputs_.lse);
    if (outputs_.row_max) to.row_max = array_of(outputs_.row_max);
    if (outputs_.row_sum) to.row_sum = array_of(outputs_.row_sum);
    if (factorized::takes(problem_, outputs_)) {
      if (outputs_.saved) {
        to.rows = device_rows(*outputs_.saved->rows(), 0);
        forget_remainder(*outputs_.saved->rows(), workspace.stream());
      }
      factorized::forward(problem_, prepared.call, to, workspace);
      return;
    }
    FastPass fast = plan_fast(programs, prepared.call, to, workspace);
    // What rounding took is kept where the backward pass reads it: under softmax, from arrays of one type.
    const bool fast_keeps =
                   fast.takes && !fast.joins && problem_.is_softmax() && to.out[0].dtype == prepared.call.q.dtype,
               keeps = fast_keeps || prepared.pairs_keep_remainder(to.out[0]);
    if (outputs_.saved) {
      to.rows = device_rows(*outputs_.saved->rows(), keeps ? to.out[0].dim : 0);
      to.remainder = device_remainder(*outputs_.saved->rows());
    } else if (asks_weights() || is_hard()) {
      to.rows = {workspace.take<float>(problem_.row_count()), workspace.take<float>(problem_.row_count())};
    }
    if (!fast.takes || !run_fast(programs, fast, to, workspace)) {
      if (outputs_.saved && (fast.takes || !keeps)) forget_remainder(*outputs_.saved->rows(), workspace.stream());
      (prepared.takes_pairs() ? programs.pairs->forward : programs.forward)(prepared.call, to, workspace.stream());
    }
    check(cudaGetLastError(), "forward");
    for (const WeightsRequest& w : outputs_.weights) weights(programs, prepared.call, to.rows, w, workspace.stream());
    if (asks_statistics(outputs_.statistics)) statistics(programs, prepared.call, to.rows, workspace);
  }

 private:
  bool asks_weights() const { return !outputs_.weights.empty() || asks_statistics(outputs_.statistics); }
  bool is_hard() const { return problem_.normalizer->threshold == Threshold::first_largest; }

  // On the tensor cores: several value sets as one.
  struct FastPass {
    bool takes = false, joins = false;
    Call call;
    int sets = 1;  // before they were joined
    Array out;
  };

  FastPass plan_fast(const Programs& programs, const Call& call, ForwardOutputs to, Workspace& workspace) const {
    FastPass fast;
    if (problem_.path != Path::automatic || !programs.fast) return fast;
    // Weights and statistics are computed by the general kernels, whose scores are rounded in another order: beside partial
    // results, a bias or a mask, the rows' maxima and sums then come from them too, and so does the key of argmax.
    const bool plain = !call.bias.data && !call.mask.data && !to.row_max.data && !to.row_sum.data && call.sets == 1;
    if (asks_weights() && (is_hard() || (problem_.is_softmax() && !plain))) return fast;
    const auto is_wanted = [](const Array& out) { return out.data != nullptr; };
    fast.joins = !is_hard() && can_join(call) && std::all_of(to.out, to.out + call.sets, is_wanted);
    fast.call = fast.joins ? join_values(call, workspace) : call;
    fast.sets = call.sets;
    if (fast.joins) {
      const auto is_short = [&](const Array& out) { return out.dtype == call.q.dtype; };
      const Dtype dtype = std::all_of(to.out, to.out + call.sets, is_short) ? call.q.dtype : Dtype::f32;
      to.out[0] = join(to.out, call.sets, call.batch, call.heads, call.queries, dtype, false, workspace);
    }
    fast.out = to.out[0];
    fast.takes = programs.fast->takes(fast.call, to);
    return fast;
  }

  // False: it did not start.
  bool run_fast(const Programs& programs, FastPass& fast, ForwardOutputs to, Workspace& workspace) const {
    Array parts[kMaxValueSets];
    std::copy(std::begin(to.out), std::end(to.out), parts);
    to.out[0] = fast.out;
    prepare_dense(fast.call, TileRows::queries, workspace);
    auto* memory = workspace.take<std::byte>(programs.fast->memory(fast.call));
    if (!programs.fast->forward(fast.call, to, memory, workspace.stream())) return false;
    const Call& call = fast.call;
    if (is_hard()) gather_values(call, to.rows, to, workspace.stream());
    if (fast.joins) split(fast.out, parts, fast.sets, call.batch, call.heads, call.queries, workspace.stream());
    return true;
  }

  static void weights(const Programs& programs, const Call& call, const RowStatistics& rows, const WeightsRequest& w,
                      cudaStream_t stream) {
    if (w.row_begin == w.row_end || call.keys == 0) return;
    RequestedWeights wanted;
    wanted.batch = static_cast<std::int32_t>(w.batch);
    wanted.head = static_cast<std::int32_t>(w.head);
    wanted.first = static_cast<std::int32_t>(w.row_begin);
    wanted.count = static_cast<std::int32_t>(w.row_end - w.row_begin);
    wanted.out = array_of(w.out);
    Call from_first = call;
    if (wanted.first % kTile != 0) from_first.q_tiles = {};  // the kernel's tiles begin at other rows
    programs.weights(from_first, rows, wanted, stream);
    check(cudaGetLastError(), "weights");
  }

  void statistics(const Programs& programs, const Call& call, const RowStatistics& rows, Workspace& workspace) {
    const Statistics& s = outputs_.statistics;
    RequestedStatistics wanted;
    wanted.entropy = static_cast<float*>(s.entropy.data);
    wanted.argmax = s.argmax;
    wanted.position = static_cast<float*>(s.position.data);
    wanted.covariance = static_cast<float*>(s.covariance.data);
    wanted.top_k = s.top_k;
    wanted.grid_cols = static_cast<std::int32_t>(s.grid[1]);
    if (s.top_k > 0) {
      const std::int64_t count = problem_.row_count() * s.top_k;
      wanted.top_indices = s.top_indices ? s.top_indices : workspace.take<std::int64_t>(count);
      wanted.top_weights = s.top_weights ? static_cast<float*>(s.top_weights.data) : workspace.take<float>(count);
      wanted.top_scores = workspace.take<float>(count);
    }
    programs.statistics(call, rows, wanted, workspace.stream());
    check(cudaGetLastError(), "statistics");
  }

  Problem& problem_;
  const Outputs& outputs_;
};

std::unique_ptr<ForwardPass> forward(Problem& problem, const Outputs& outputs) {
  return std::make_unique<Pass>(problem, outputs);
}

}  // namespace

const Backend& cuda_backend() {
  static constexpr Backend backend{"cuda", &takes, &forward, &cuda::backward};
  return backend;
}

}  // namespace rapt::inline v1
