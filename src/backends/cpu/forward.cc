#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/engine.h"
#include "backends/cpu/grouped_heads.h"
#include "backends/cpu/head_waves.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/short_heads.h"
#include "backends/host/storage.h"

// The fused forward pass: which task computes which queries, and over which keys.
namespace rapt::inline v1 {
namespace {

// The outputs of one head: views into what the caller gave.
template <class T>
struct HeadOutputs {
  std::vector<MatrixRef> out;
  MatrixRef lse;
  std::vector<WeightsTask> weights;
  StatisticsTask<T> statistics;
};

// Where the outputs of every head lie. bind() reads the addresses anew.
template <class T>
class OutputArrays {
 public:
  OutputArrays(const Problem& p, const Outputs& outputs) : p_(p), outputs_(outputs) {
    for (const View& view : outputs.out) out_.push_back(make_operand("attend", "out", view));
    if (outputs.lse) lse_ = make_operand("attend", "lse", outputs.lse);
  }

  void bind() {
    for (std::size_t s = 0; s < out_.size(); ++s) out_[s].data = outputs_.out[s].data;
    lse_.data = outputs_.lse.data;
  }

  void of_head(std::int64_t b, std::int64_t h, HeadOutputs<T>& head) const {
    head.out.clear();
    head.weights.clear();
    for (const Operand& out : out_) head.out.push_back(out.at(b, h));
    if (lse_) head.lse = lse_.at(b, h);
    for (const WeightsRequest& request : outputs_.weights)
      if (request.batch == b && request.head == h)
        head.weights.push_back(
            {request.row_begin, request.row_end, make_operand("attend", "weights", request.out).at(0, 0), nullptr});
    for (std::size_t n = 1; n < head.weights.size(); ++n) head.weights[n - 1].next = &head.weights[n];
    if (!asks_statistics(outputs_.statistics)) return;
    const Statistics& s = outputs_.statistics;
    const std::int64_t row = (b * p_.heads + h) * p_.queries;
    const bool grid = s.grid[1] > 0;
    const auto at = [&](const View& view, std::int64_t size) {
      return view ? static_cast<T*>(view.data) + row * size : nullptr;
    };
    head.statistics.entropy = at(s.entropy, 1);
    head.statistics.argmax = s.argmax ? s.argmax + row : nullptr;
    head.statistics.position = at(s.position, grid ? 2 : 1);
    head.statistics.covariance = at(s.covariance, grid ? 4 : 1);
    head.statistics.top_k = s.top_k;
    head.statistics.top_indices = s.top_indices ? s.top_indices + row * s.top_k : nullptr;
    head.statistics.top_weights = at(s.top_weights, s.top_k);
    head.statistics.grid_cols = s.grid[1];
  }

 private:
  const Problem& p_;
  const Outputs& outputs_;
  std::vector<Operand> out_;
  Operand lse_;
};

// Few queries against many keys leave threads idle unless tasks share the keys. Which task computes a part changes no
// bit.
bool shares_keys(const Problem& p, const Outputs& outputs, std::int64_t tasks) {
  const std::int64_t few_tasks = std::max(32, 4 * p.threads);
  const bool softmax = p.is_softmax() && !p.normalizer_parameters[0].given;
  return asks_plain(outputs) && softmax && !p.find(Role::relative_output) && p.threads > 1 && p.keys > kKeyPart &&
         tasks < few_tasks;
}

// How many blocks of queries a task takes: several where keys and values do not stay in the L2 cache, as long as every thread has
// many tasks. No bit of the result depends on it.
std::int64_t task_blocks(const Problem& p, std::int64_t rows) {
  // A solved threshold keeps all scores of its block.
  if (p.normalizer->threshold == Threshold::solved) return 1;
  constexpr std::int64_t kTasksPerThread = 8;
  const std::int64_t all = p.batch * p.heads * ((p.queries + rows - 1) / rows);
  return std::clamp<std::int64_t>(all / (kTasksPerThread * p.threads), 1, kForwardBlocks);
}

// How many queries a task takes where there are hardly more tasks than threads: as many as end the call soonest. A single
// vector of queries is multiplied at less than full speed, two are not. No bit of the result depends on it.
template <class T>
std::int64_t split_rows(const Problem& p, const Kernels<T>& kernels, std::int64_t parts) {
  constexpr std::int64_t kFewest = 16;
  const auto longest = [&](std::int64_t each) {
    const std::int64_t tasks = p.batch * p.heads * parts * ((p.queries + each - 1) / each);
    const std::int64_t own_cost = each > kernels.pad ? 2 : 4;  // in rows
    return (tasks + p.threads - 1) / p.threads * (std::min(each, p.queries) + own_cost);
  };
  std::int64_t best = kernels.forward_rows;
  for (std::int64_t each = best / 2; each >= kFewest && p.threads > 1; each /= 2)
    if (longest(each) < longest(best)) best = each;
  return best;
}

// What the tasks of one part leave, every number of it written: averages, maxima and sums of every query of the wave.
template <class T>
struct Part {
  Part(std::int64_t rows, const std::vector<std::int64_t>& dims, std::size_t sets) {
    std::int64_t numbers = 2 * rows;
    for (std::size_t s = 0; s < sets; ++s) numbers += rows * dims[s];
    memory = Buffer(static_cast<std::size_t>(numbers) * sizeof(T));
    row_max = memory.as<T>();
    row_sum = row_max + rows;
    T* next = row_sum + rows;
    for (std::size_t s = 0; s < sets; ++s) {
      out.push_back(next);
      next += rows * dims[s];
    }
  }

  Buffer memory;
  std::vector<T*> out;  // [sets]: [heads of the wave · queries][dim]
  T* row_max = nullptr;
  T* row_sum = nullptr;
};

template <class T>
class Forward final : public ForwardPass {
 public:
  Forward(const Problem& p, const Outputs& outputs, bool narrow)
      : p_(p),
        outputs_(outputs),
        kernels_(kernels_for<T>(p.isa)),
        heads_(p, kernels_, false, narrow),
        arrays_(p, outputs),
        short_(p, outputs, kernels_, heads_) {
    if (!short_.takes()) prepare();
  }

  void run() override {
    const std::int64_t total = p_.batch * p_.heads;
    if (short_.takes()) {
      short_.run([&](std::int64_t head) {
        if (!prepared_) prepare();
        arrays_.bind();
        run_wave(head, 1);
      });
      return;
    }
    arrays_.bind();
    for (std::int64_t start = 0; start < total; start += heads_.wave_size())
      run_wave(start, std::min(heads_.wave_size(), total - start));
    store_true_rows();
  }

 private:
  void run_wave(std::int64_t start, std::int64_t count) {
    heads_.prepare(start, count, wave_);
    for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n)
      arrays_.of_head(wave_[n].b, wave_[n].h, targets_[n]);
    if (parts_ == 1)
      parallel_for(count * blocks_, workers_, [&](std::int64_t n, int worker) {
        // The last blocks of a causal mask see the most keys: they go first, so that all threads end together.
        run_block(static_cast<std::size_t>(n % count), blocks_ - 1 - n / count, worker);
      });
    else run_parts(count);
  }

  ForwardTask<T> make_task(std::size_t which, std::int64_t block, int worker) const {
    ForwardTask<T> task;
    task.head = &wave_[which].task;
    task.first_query = block * task_rows_;
    task.count = std::min(task_rows_, p_.queries - task.first_query);
    task.workspace = workspaces_[static_cast<std::size_t>(worker)].template as<char>();
    return task;
  }

  std::int64_t row_of(std::size_t which) const { return (wave_[which].b * p_.heads + wave_[which].h) * p_.queries; }

  void run_block(std::size_t which, std::int64_t block, int worker) const {
    const HeadOutputs<T>& target = targets_[which];
    ForwardTask<T> task = make_task(which, block, worker);
    if (only_weights_ && !asks_weights(target.weights, task)) return;
    task.out = target.out.empty() ? nullptr : target.out.data();
    task.lse = target.lse;
    if (saved_) {
      task.row_max = saved_->max<T>() + row_of(which);
      task.row_sum = saved_->sum<T>() + row_of(which);
    }
    if (outputs_.row_max || outputs_.row_sum) {
      task.true_max = true_rows_.template as<T>() + row_of(which);
      task.true_sum = task.true_max + p_.batch * p_.heads * p_.queries;
    }
    task.statistics = target.statistics;
    task.weights = target.weights.empty() ? nullptr : target.weights.data();
    kernels_.forward(task);
  }

  static bool asks_weights(const std::vector<WeightsTask>& weights, const ForwardTask<T>& task) {
    return std::ranges::any_of(weights, [&](const WeightsTask& w) {
      return w.row_begin < task.first_query + task.count && w.row_end > task.first_query;
    });
  }

  // How the work is cut into tasks, and their memory.
  void prepare() {
    const std::int64_t total = p_.batch * p_.heads;
    only_weights_ = outputs_.out.empty() && !outputs_.lse && !outputs_.saved && !outputs_.weights.empty() &&
                    !outputs_.row_max && !outputs_.row_sum && !asks_statistics(outputs_.statistics);
    task_rows_ = kernels_.forward_rows * (only_weights_ ? 1 : task_blocks(p_, kernels_.forward_rows));
    saved_ = outputs_.saved ? outputs_.saved->rows() : nullptr;
    if (shares_keys(p_, outputs_, total * ((p_.queries + kernels_.forward_rows - 1) / kernels_.forward_rows)))
      parts_ = (p_.keys + kKeyPart - 1) / kKeyPart;
    if (task_rows_ == kernels_.forward_rows && !only_weights_) task_rows_ = split_rows(p_, kernels_, parts_);
    blocks_ = (p_.queries + task_rows_ - 1) / task_rows_;
    const HeadTask<T> prototype = heads_.prototype();
    HeadOutputs<T> first;
    arrays_.of_head(0, 0, first);
    ForwardTask<T> sample;
    sample.head = &prototype;
    sample.count = std::min(task_rows_, p_.queries);
    sample.statistics = first.statistics;
    const WeightsTask any;
    if (!outputs_.weights.empty()) sample.weights = &any;
    if (outputs_.row_max || outputs_.row_sum)
      true_rows_ = Buffer(static_cast<std::size_t>(2 * total * p_.queries) * sizeof(T));
    sample.is_part = parts_ > 1;
    const std::size_t bytes = kernels_.forward_workspace(sample);
    workers_ = static_cast<int>(std::min<std::int64_t>(p_.threads, total * blocks_ * parts_));
    workspaces_.clear();
    for (int t = 0; t < workers_; ++t) workspaces_.emplace_back(bytes);
    heads_.reserve(heads_.wave_size(), wave_);
    targets_.resize(static_cast<std::size_t>(heads_.wave_size()));
    for (HeadOutputs<T>& target : targets_) {
      target.out.reserve(p_.v.size());
      target.weights.reserve(outputs_.weights.size());
    }
    if (parts_ > 1) make_parts();
    prepared_ = true;
  }

  void make_parts() {
    const std::int64_t rows = heads_.wave_size() * p_.queries;
    const std::size_t sets = outputs_.out.size();
    parts_sums_.clear();
    value_dims_.clear();
    for (const Operand& v : p_.v) value_dims_.push_back(v.dim);
    for (std::int64_t n = 0; n < parts_; ++n) parts_sums_.emplace_back(rows, value_dims_, sets);
    part_out_.resize(static_cast<std::size_t>(workers_), std::vector<MatrixRef>(sets));
    merge_to_.resize(static_cast<std::size_t>(workers_), std::vector<T*>(sets));
    merge_from_.resize(static_cast<std::size_t>(workers_), std::vector<const T*>(sets));
  }

  void run_parts(std::int64_t count) {
    parallel_for(count * blocks_ * parts_, workers_, [&](std::int64_t n, int worker) {
      const std::int64_t index = n % parts_, item = n / parts_;
      const auto which = static_cast<std::size_t>(item % count);
      Part<T>& part = parts_sums_[static_cast<std::size_t>(index)];
      ForwardTask<T> task = make_task(which, item / count, worker);
      task.key_begin = index * kKeyPart;
      task.key_end = task.key_begin + kKeyPart;
      task.is_part = true;
      const std::int64_t first = static_cast<std::int64_t>(which) * p_.queries;
      std::vector<MatrixRef>& out = part_out_[static_cast<std::size_t>(worker)];
      for (std::size_t s = 0; s < part.out.size(); ++s)
        out[s] = {part.out[s] + first * p_.v[s].dim, dtype_of<T>(), p_.v[s].dim};
      task.out = out.empty() ? nullptr : out.data();
      task.row_max = part.row_max + first;
      task.row_sum = part.row_sum + first;
      kernels_.forward(task);
    });
    merge(count);
  }

  // The parts of every row in their order, then what a whole row writes. Rows are independent, so blocks of them are tasks.
  void merge(std::int64_t count) {
    constexpr std::int64_t kNumbers = 1 << 15;  // of a task: a few microseconds
    std::int64_t width = 1;
    for (const std::int64_t dim : value_dims_) width += dim;
    const std::int64_t rows = std::clamp<std::int64_t>(kNumbers / (width * parts_), 16, 128);
    const std::int64_t blocks = (p_.queries + rows - 1) / rows;
    parallel_for(count * blocks, workers_, [&](std::int64_t n, int worker) {
      const std::int64_t which = n / blocks, begin = n % blocks * rows;
      const std::int64_t end = std::min(begin + rows, p_.queries), first = which * p_.queries + begin;
      Part<T>& total = parts_sums_[0];
      std::vector<T*>& to = merge_to_[static_cast<std::size_t>(worker)];
      std::vector<const T*>& from = merge_from_[static_cast<std::size_t>(worker)];
      for (std::size_t s = 0; s < to.size(); ++s) to[s] = total.out[s] + first * value_dims_[s];
      // As the first merge with nothing before it: times 1.
      for (std::size_t m = 1; m < parts_sums_.size(); ++m) {
        const Part<T>& part = parts_sums_[m];
        for (std::size_t s = 0; s < to.size(); ++s) from[s] = part.out[s] + first * value_dims_[s];
        kernels_.merge_rows({.rows = end - begin,
                             .sets = static_cast<int>(to.size()),
                             .dim = value_dims_.data(),
                             .total = to.data(),
                             .part = from.data(),
                             .total_max = total.row_max + first,
                             .total_sum = total.row_sum + first,
                             .part_max = part.row_max + first,
                             .part_sum = part.row_sum + first});
      }
      for (std::int64_t i = begin; i < end; ++i) write_row(total, static_cast<std::size_t>(which), i);
    });
  }

  void write_row(Part<T>& total, std::size_t which, std::int64_t i) const {
    const std::int64_t at = static_cast<std::int64_t>(which) * p_.queries + i;
    const T max = total.row_max[at], sum = total.row_sum[at];
    const T factor = sum == T(0) ? T(0) : T(1) / sum;
    for (std::size_t s = 0; s < outputs_.out.size(); ++s) {
      T* row = total.out[s] + at * p_.v[s].dim;
      for (std::int64_t d = 0; d < p_.v[s].dim; ++d) row[d] *= factor;
      kernels_.store_row(row, p_.v[s].dim, targets_[which].out[s], i);
    }
    if (saved_) {
      saved_->max<T>()[row_of(which) + i] = max;
      saved_->sum<T>()[row_of(which) + i] = sum;
    }
    if (targets_[which].lse.data) {
      const T lse = sum == T(0) ? -std::numeric_limits<T>::infinity() : max + std::log(sum);
      store_row(&lse, 1, targets_[which].lse, i);
    }
  }

  void store_true_rows() const {
    const std::int64_t rows = p_.batch * p_.heads * p_.queries;
    const View* views[] = {&outputs_.row_max, &outputs_.row_sum};
    for (int n = 0; n < 2; ++n)
      if (*views[n]) store_array(true_rows_.template as<T>() + n * rows, *views[n]);
  }

  const Problem& p_;
  const Outputs& outputs_;
  const Kernels<T>& kernels_;
  HeadWaves<T> heads_;
  OutputArrays<T> arrays_;
  ShortHeads<T> short_;
  Saved::Rows* saved_ = nullptr;
  std::int64_t task_rows_ = 0, blocks_ = 0, parts_ = 1;
  Buffer true_rows_;           // [2][rows]: largest scores and sums under them, where they are wanted
  bool only_weights_ = false;  // then blocks without a row of them have nothing to do
  int workers_ = 1;
  bool prepared_ = false;
  std::vector<Buffer> workspaces_;
  std::vector<Head<T>> wave_;
  std::vector<HeadOutputs<T>> targets_;  // of the heads of the wave
  std::vector<Part<T>> parts_sums_;      // [parts]
  // What each worker describes parts with.
  std::vector<std::vector<MatrixRef>> part_out_;
  std::vector<std::vector<T*>> merge_to_;
  std::vector<std::vector<const T*>> merge_from_;
  std::vector<std::int64_t> value_dims_;
};

}  // namespace

bool all_narrow(const Outputs& outputs) {
  return !outputs.out.empty() &&
         std::ranges::all_of(outputs.out, [](const View& out) { return out.dtype == Dtype::bf16; });
}

std::unique_ptr<ForwardPass> tiled_forward(const Problem& problem, const Outputs& outputs, bool narrow) {
  if (asks_plain(outputs) && groups_heads(problem)) return grouped_forward(problem, outputs, narrow);
  if (problem.is_double) return std::make_unique<Forward<double>>(problem, outputs, narrow);
  return std::make_unique<Forward<float>>(problem, outputs, narrow);
}

}  // namespace rapt::inline v1
