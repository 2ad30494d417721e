#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/head_waves.h"
#include "backends/cpu/parallel.h"

namespace rapt::inline v1 {

inline ShortArray short_array(const Operand& o) {
  const auto bytes = static_cast<std::int64_t>(size_of(o.dtype));
  return {{o.data, o.dtype, o.row_stride}, o.batches == 1 ? 0 : o.batch_stride * bytes, o.head_stride * bytes, o.group};
}

// How whole heads are divided among tasks, a `unit` of them together.
struct ShortShare {
  int workers = 1;
  std::int64_t heads = 1;  // of a task

  // `products`: of which each pair of a query and a key has so many.
  ShortShare(const Problem& p, double products, std::int64_t unit) {
    // The work that takes as long as waking a thread.
    constexpr double kProductsPerThread = 1 << 17;
    constexpr std::int64_t kTasksPerThread = 4;
    const std::int64_t total = p.batch * p.heads / unit;
    products *= static_cast<double>(p.queries * p.keys * p.batch * p.heads);
    const double threads = std::clamp(products / kProductsPerThread, 1.0, static_cast<double>(p.threads));
    workers = static_cast<int>(std::min<std::int64_t>(static_cast<std::int64_t>(threads), total));
    const std::int64_t tasks = workers == 1 ? 1 : std::min(total, workers * kTasksPerThread);
    heads = (total + tasks - 1) / tasks * unit;
  }
};

// Short sequences: plain products under softmax, of at most kShort queries and keys. What a task costs besides the
// arithmetic would be most of its time, so a task takes whole heads, many of them, and keeps nothing for each.
template <class T>
class ShortHeads {
 public:
  ShortHeads(const Problem& p, const Outputs& outputs, const Kernels<T>& kernels, const HeadWaves<T>& heads)
      : p_(p), outputs_(outputs), kernels_(kernels), heads_(heads) {
    takes_ = p.queries <= kShort && p.keys <= kShort && p.keys > 0 && heads.is_plain_product() && p.is_softmax() &&
             !p.normalizer_parameters[0].given && asks_plain(outputs);
    if (!takes_) return;

    double products = static_cast<double>(p.inner);
    for (const Operand& v : p.v) products += static_cast<double>(v.dim);
    const ShortShare share(p, products, 1);
    group_ = share.heads;
    failed_.resize(static_cast<std::size_t>(p.batch * p.heads));
    describe();
    const std::size_t bytes = kernels.short_workspace(task_);
    for (int t = 0; t < share.workers; ++t) workspaces_.emplace_back(bytes);
  }

  bool takes() const { return takes_; }

  // again(head): for a head whose values are not all finite, which the kernel leaves to another.
  template <class Again>
  void run(const Again& again) {
    bind();
    const auto total = static_cast<std::int64_t>(failed_.size());
    parallel_for((total + group_ - 1) / group_, static_cast<int>(workspaces_.size()), [&](std::int64_t n, int worker) {
      kernels_.short_heads(task_, n * group_, std::min(group_, total - n * group_),
                           workspaces_[static_cast<std::size_t>(worker)].template as<char>());
    });
    for (std::int64_t n = 0; n < total; ++n) {
      if (failed_[static_cast<std::size_t>(n)] == 0) continue;
      failed_[static_cast<std::size_t>(n)] = 0;
      again(n);
    }
  }

 private:
  void describe() {
    for (const Operand& v : p_.v) values_.push_back({short_array(v), v.dim});
    for (const View& out : outputs_.out) out_.push_back(short_array(make_operand("attend", "out", out)));
    task_.heads = p_.heads;
    task_.queries = p_.queries;
    task_.keys = p_.keys;
    task_.dim = static_cast<int>(p_.inner);
    task_.scale = static_cast<T>(p_.scale);
    task_.q = short_array(p_.q);
    task_.k = short_array(p_.k);
    task_.sets = static_cast<int>(values_.size());
    task_.v = values_.data();
    task_.out = out_.empty() ? nullptr : out_.data();
    if (outputs_.lse) task_.lse = short_array(make_operand("attend", "lse", outputs_.lse));
    task_.failed = failed_.data();
  }

  // The addresses, and what the problem's lengths say, are those of this run. Rotated queries may have other strides.
  void bind() {
    task_.q = short_array(p_.q);
    task_.k.first.data = p_.k.data;
    for (std::size_t s = 0; s < values_.size(); ++s) values_[s].array.first.data = p_.v[s].data;
    for (std::size_t s = 0; s < out_.size(); ++s) out_[s].first.data = outputs_.out[s].data;
    task_.lse.first.data = outputs_.lse.data;
    if (outputs_.saved) {
      task_.row_max = outputs_.saved->rows()->template max<T>();
      task_.row_sum = outputs_.saved->rows()->template sum<T>();
    }
    task_.visibility = heads_.visibility().is_whole() ? nullptr : &heads_.visibility();
  }

  const Problem& p_;
  const Outputs& outputs_;
  const Kernels<T>& kernels_;
  const HeadWaves<T>& heads_;
  bool takes_ = false;
  ShortTask<T> task_;
  std::int64_t group_ = 1;  // heads of a task
  std::vector<ShortValues> values_;
  std::vector<ShortArray> out_;
  std::vector<std::uint8_t> failed_;
  std::vector<Buffer> workspaces_;
};

}  // namespace rapt::inline v1
