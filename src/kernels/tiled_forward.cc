#include <algorithm>
#include <numeric>

#include "kernels/head_waves.h"
#include "kernels/parallel.h"

namespace rapt {
namespace {

// The outputs of one head: views into what the caller gave.
template <class T>
struct HeadOutputs {
  std::vector<MatrixRef> out;
  MatrixRef lse;
  std::vector<WeightsTask> weights;
  StatisticsTask<T> statistics;
};

template <class T>
HeadOutputs<T> outputs_of(const Problem& p, const Outputs& outputs, std::int64_t b, std::int64_t h) {
  HeadOutputs<T> head;
  for (const View& view : outputs.out) head.out.push_back(make_operand("attend", "out", view).at(b, h));
  if (outputs.lse) head.lse = make_operand("attend", "lse", outputs.lse).at(b, h);
  for (const WeightsRequest& request : outputs.weights)
    if (request.batch == b && request.head == h)
      head.weights.push_back({request.row_begin, request.row_end, make_operand("attend", "weights", request.out).at(0, 0), nullptr});
  for (std::size_t n = 1; n < head.weights.size(); ++n) head.weights[n - 1].next = &head.weights[n];
  const Statistics& s = outputs.statistics;
  const std::int64_t row = (b * p.heads + h) * p.queries;
  const bool grid = s.grid[1] > 0;
  const auto at = [&](const View& view, std::int64_t size) { return view ? static_cast<T*>(view.data) + row * size : nullptr; };
  head.statistics.entropy = at(s.entropy, 1);
  head.statistics.argmax = s.argmax ? s.argmax + row : nullptr;
  head.statistics.position = at(s.position, grid ? 2 : 1);
  head.statistics.covariance = at(s.covariance, grid ? 4 : 1);
  head.statistics.top_k = s.top_k;
  head.statistics.top_indices = s.top_indices ? s.top_indices + row * s.top_k : nullptr;
  head.statistics.top_weights = at(s.top_weights, s.top_k);
  head.statistics.grid_cols = s.grid[1];
  return head;
}

template <class T>
void run(const Problem& p, const Outputs& outputs) {
  const Kernels<T>& kernels = active_kernels<T>();
  HeadWaves<T> heads(p, kernels, false);
  const std::int64_t total = p.batch * p.heads;
  std::vector<std::int64_t> order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t blocks = (p.queries + kernels.forward_rows - 1) / kernels.forward_rows;
  Saved::Rows* saved = outputs.saved ? outputs.saved->rows() : nullptr;
  if (saved) saved->resize(total * p.queries, p.is_double);

  const HeadTask<T> prototype = heads.prototype();
  HeadOutputs<T> first = outputs_of<T>(p, outputs, 0, 0);
  ForwardTask<T> sample;
  sample.head = &prototype;
  sample.count = std::min<std::int64_t>(kernels.forward_rows, p.queries);
  sample.statistics = first.statistics;
  const std::size_t bytes = kernels.forward_workspace(sample);
  std::vector<Buffer> workspaces;
  const auto workers = static_cast<int>(std::min<std::int64_t>(p.threads, total * blocks));
  for (int t = 0; t < workers; ++t) workspaces.emplace_back(bytes);

  for (std::int64_t start = 0; start < total; start += heads.wave_size()) {
    const std::int64_t count = std::min(heads.wave_size(), total - start);
    const std::vector<Head<T>> wave = heads.prepare(order, start, count);
    std::vector<HeadOutputs<T>> targets;
    for (const Head<T>& head : wave) targets.push_back(outputs_of<T>(p, outputs, head.b, head.h));
    parallel_for(count * blocks, workers, [&](std::int64_t n, int worker) {
      // The last blocks of a causal mask see the most keys: they go first, so that no thread is left with one at the end.
      const auto which = static_cast<std::size_t>(n % count);
      const std::int64_t block = blocks - 1 - n / count;
      const Head<T>& head = wave[which];
      const HeadOutputs<T>& target = targets[which];
      ForwardTask<T> task;
      task.head = &head.task;
      task.first_query = block * kernels.forward_rows;
      task.count = std::min<std::int64_t>(kernels.forward_rows, p.queries - task.first_query);
      task.out = target.out.empty() ? nullptr : target.out.data();
      task.lse = target.lse;
      if (saved) {
        task.row_max = saved->max<T>() + (head.b * p.heads + head.h) * p.queries;
        task.row_sum = saved->sum<T>() + (head.b * p.heads + head.h) * p.queries;
      }
      task.statistics = target.statistics;
      task.weights = target.weights.empty() ? nullptr : target.weights.data();
      task.workspace = workspaces[static_cast<std::size_t>(worker)].template as<char>();
      kernels.forward(task);
    });
  }
}

}  // namespace

void tiled_forward(const Problem& problem, const Outputs& outputs) {
  if (problem.is_double) run<double>(problem, outputs);
  else run<float>(problem, outputs);
}

}  // namespace rapt
