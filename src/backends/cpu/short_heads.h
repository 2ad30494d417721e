#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/head_waves.h"
#include "backends/cpu/parallel.h"

namespace rapt::inline v1 {

// Short sequences: plain products under softmax, of at most kShort queries and keys. What a task costs besides the
// arithmetic would be most of its time, so a task takes whole heads, many of them, and keeps nothing for each.
template <class T>
class ShortHeads {
 public:
  ShortHeads(const Problem& p, const Outputs& outputs, const Kernels<T>& kernels, const HeadWaves<T>& heads)
      : p_(p), outputs_(outputs), kernels_(kernels), heads_(heads) {
    takes_ = p.queries <= kShort && p.keys <= kShort && p.keys > 0 && heads.is_plain_product() &&
             p.normalizer->threshold == Threshold::exponential && !p.normalizer_parameters[0].given &&
             outputs.weights.empty() && !asks_statistics(outputs.statistics) && !outputs.row_max && !outputs.row_sum;
    if (!takes_) return;
    // Waking a thread takes as long as this much work.
    constexpr double kProductsPerThread = 1 << 17;
    const std::int64_t total = p.batch * p.heads;
    double products = static_cast<double>(p.inner);
    for (const Operand& v : p.v) products += static_cast<double>(v.dim);
    products *= static_cast<double>(p.queries * p.keys * total);
    const double threads = std::clamp(products / kProductsPerThread, 1.0, static_cast<double>(p.threads));
    const auto workers = static_cast<int>(std::min<std::int64_t>(static_cast<std::int64_t>(threads), total));
    constexpr std::int64_t kTasksPerThread = 4;
    const std::int64_t tasks = workers == 1 ? 1 : std::min(total, workers * kTasksPerThread);
    group_ = (total + tasks - 1) / tasks;
    values_.resize(p.v.size());
    out_.resize(outputs.out.size());
    failed_.resize(static_cast<std::size_t>(total));
    const std::size_t bytes = kernels.short_workspace(task());
    for (int t = 0; t < workers; ++t) workspaces_.emplace_back(bytes);
  }

  bool takes() const { return takes_; }

  // again(head): for a head whose values are not all finite, which the kernel leaves to another.
  template <class Arrays, class Again>
  void run(const Arrays& arrays, const Again& again) {
    std::ranges::fill(failed_, std::uint8_t{0});
    for (std::size_t s = 0; s < out_.size(); ++s) out_[s] = array_of(arrays.out()[s]);
    lse_ = outputs_.lse ? array_of(arrays.lse()) : ShortArray{};
    const ShortTask<T> whole = task();
    const std::int64_t total = p_.batch * p_.heads;
    parallel_for((total + group_ - 1) / group_, static_cast<int>(workspaces_.size()), [&](std::int64_t n, int worker) {
      ShortTask<T> part = whole;
      part.first = n * group_;
      part.count = std::min(group_, total - part.first);
      part.workspace = workspaces_[static_cast<std::size_t>(worker)].template as<char>();
      kernels_.short_heads(part);
    });
    for (std::int64_t n = 0; n < total; ++n)
      if (failed_[static_cast<std::size_t>(n)] != 0) again(n);
  }

 private:
  static ShortArray array_of(const Operand& o) {
    const auto bytes = static_cast<std::int64_t>(size_of(o.dtype));
    return {
        {o.data, o.dtype, o.row_stride}, o.batches == 1 ? 0 : o.batch_stride * bytes, o.head_stride * bytes, o.group};
  }

  ShortTask<T> task() {
    for (std::size_t s = 0; s < values_.size(); ++s) values_[s] = {array_of(p_.v[s]), p_.v[s].dim};
    ShortTask<T> task;
    task.heads = p_.heads;
    task.queries = p_.queries;
    task.keys = p_.keys;
    task.dim = static_cast<int>(p_.inner);
    task.scale = static_cast<T>(p_.scale);
    task.q = array_of(p_.q);
    task.k = array_of(p_.k);
    task.sets = static_cast<int>(values_.size());
    task.v = values_.data();
    task.out = out_.empty() ? nullptr : out_.data();
    task.lse = lse_;
    if (outputs_.saved) {
      task.row_max = outputs_.saved->rows()->template max<T>();
      task.row_sum = outputs_.saved->rows()->template sum<T>();
    }
    if (!heads_.visibility().is_whole()) task.visibility = &heads_.visibility();
    task.failed = failed_.data();
    return task;
  }

  const Problem& p_;
  const Outputs& outputs_;
  const Kernels<T>& kernels_;
  const HeadWaves<T>& heads_;
  bool takes_ = false;
  std::int64_t group_ = 1;  // heads of a task
  std::vector<ShortValues> values_;
  std::vector<ShortArray> out_;
  ShortArray lse_;
  std::vector<std::uint8_t> failed_;
  std::vector<Buffer> workspaces_;
};

}  // namespace rapt::inline v1
