#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/block_visits.h"
#include "backends/cpu/chunk_progress.h"
#include "backends/cpu/engine.h"
#include "backends/cpu/gradient_sink.h"
#include "backends/cpu/grouped_heads.h"
#include "backends/cpu/head_waves.h"
#include "backends/cpu/map_gradients.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/parameter_sink.h"
#include "backends/cpu/row_means.h"
#include "backends/cpu/sharing.h"
#include "backends/host/host_parameters.h"
#include "backends/host/storage.h"

// The backward pass: which task adds what, where, and in which order. The order is fixed by the shapes alone, so the
// result has the same bits on any number of threads.
namespace rapt::inline v1 {
namespace {

// How long sixteen workers take for the chunks of some heads, each task by the first that is free, in keys for each block of
// queries. `cost`: of a chunk itself.
std::int64_t longest_worker(std::int64_t heads, std::int64_t keys, std::int64_t each, std::int64_t cost) {
  constexpr std::int64_t kWorkers = 16;
  std::array<std::int64_t, kWorkers> until{};
  const std::int64_t whole = heads * (keys / each), rest = keys % each;
  for (std::int64_t n = 0; n < kWorkers; ++n)
    until[static_cast<std::size_t>(n)] = (each + cost) * ((whole + kWorkers - 1 - n) / kWorkers);
  for (std::int64_t n = 0; n < heads && rest > 0; ++n) *std::ranges::min_element(until) += rest + cost;
  return *std::ranges::max_element(until);
}

// Keys of one task: as many as the caches hold, fewer where there are few heads, so that many threads find work. What is
// added in which order follows from it, so it depends on the shapes alone. Parts of a call run beside each other.
std::int64_t task_keys(const Problem& p, std::int64_t fit, bool sees_all, bool is_part) {
  constexpr std::int64_t kTasks = 16, kManyTasks = 64 * kTasks;
  const std::int64_t heads = p.batch * p.heads, tiles = (p.keys + kTileKeys - 1) / kTileKeys;
  const auto chunks = [&](std::int64_t each) { return (p.keys + each - 1) / each; };
  std::int64_t keys = fit;
  if (is_part) return keys;
  while (keys > kTileKeys && heads * chunks(keys) < kTasks) keys = (keys / 2 + kTileKeys - 1) / kTileKeys * kTileKeys;
  keys = std::min(keys, std::max<std::int64_t>(tiles, 1) * kTileKeys);
  if (!sees_all || heads * tiles > kManyTasks) return keys;
  // Sixteen threads end soonest with this many, and one takes hardly longer. Of wide rows half as many again
  // still fit a larger cache.
  const std::int64_t most = std::min(fit > 2 * kTileKeys ? fit : fit * 3 / 2, tiles * kTileKeys);
  // Of a chunk in keys, as measured: 9 at D 256, 14 at D 64, and what a task costs whose queries are few.
  std::int64_t width = p.inner;
  for (const Operand& v : p.v) width += v.dim;
  const std::int64_t rows = 1 + static_cast<std::int64_t>(p.v.size());
  const std::int64_t cost = 8 + 400 * rows / std::max<std::int64_t>(1, width) + 4096 / std::max(kShort, p.queries);
  const auto alone = [&](std::int64_t each) { return p.keys + chunks(each) * cost; };
  std::int64_t best = keys;
  for (std::int64_t each = most / kTileKeys * kTileKeys; each >= kTileKeys; each -= kTileKeys) {
    if (100 * alone(each) > 101 * alone(keys)) continue;
    const std::int64_t now = longest_worker(heads, p.keys, each, cost),
                       before = longest_worker(heads, p.keys, best, cost);
    if (now < before || (now == before && each > best)) best = each;
  }
  return best;
}

template <class T>
class Backward {
 public:
  Backward(const Problem& p, const BackwardRequest& request, const Saved::Rows& rows)
      : Backward(p, request, request.gradients, rows) {}

 private:
  Backward(const Problem& p, const BackwardRequest& request, const Gradients& gradients, const Saved::Rows& rows)
      : p_(p),
        request_(request),
        kernels_(kernels_for<T>(p.isa)),
        heads_(p, kernels_, true, all_narrow(request), wave_bytes(p, gradients)),
        grad_out_(request.grad_out),
        rows_(const_cast<Saved::Rows&>(rows)),
        means_(p, kernels_, request, rows_),
        prototype_(heads_.prototype()),
        chunk_(task_keys(p, kernels_.backward_keys(prototype_), heads_.visibility().is_whole(), rows.of_more_keys)),
        chunks_((p.keys + chunk_ - 1) / chunk_),
        blocks_((p.queries + kernels_.backward_rows - 1) / kernels_.backward_rows),
        rewrites_(may_rewrite()),
        dq_(gradients.q, p.q.group, kernels_, p.threads, rewrites_ && chunks_ == 1 && has_own(p.q)),
        dk_(gradients.k, p.k.group, kernels_, p.threads, rewrites_ && has_own(p.k)),
        dbias_(gradients.bias, p.bias.group, kernels_, p.threads) {
    // Corrections leave dv alone.
    for (std::size_t s = 0; s < p.v.size(); ++s)
      dv_.emplace_back(s < gradients.v.size() ? gradients.v[s] : View{}, p.v[s].group, kernels_, p.threads,
                       has_own(p.v[s]));
    for (const ParameterValue& value : p.parameters)
      parameters_.emplace_back(value, find(gradients, value), p.heads, p.threads);
    for (const ParameterValue& value : p.normalizer_parameters) {
      normalizer_views_.push_back(value.given ? find(gradients, value) : View{});
      want_normalizer_ = want_normalizer_ || normalizer_views_.back();
    }
    for (const Sink<T>& v : dv_) want_dv_ = want_dv_ || v.wanted();
    for (const ParameterSink<T>& s : parameters_) {
      // A table of outputs gets its gradient from the weights, like values.
      if (s.wanted() && s.role() == Role::relative_output) want_dv_ = true;
      else want_score_ = want_score_ || s.wanted();
    }
    want_score_ = (want_score_ || dq_.wanted() || dk_.wanted() || dbias_.wanted() || want_normalizer_) &&
                  p.normalizer->threshold != Threshold::first_largest;
    want_score_ = want_score_ || request.means;
    adds_bias_rows_ = dbias_.wanted() && (p.bias.rows > 1 || p.queries == 1);
  }

 public:
  void run() {
    const std::int64_t total = p_.batch * p_.heads;
    // Of one wave the first head of a key writes its gradients, and others add to them.
    writes_ = (want_score_ || want_dv_) && heads_.wave_size() >= total;
    dq_.clear();
    dbias_.clear();
    if (!writes_ || !p_.uses_content || heads_.maps_k()) dk_.clear();
    for (Sink<T>& v : dv_)
      if (!writes_) v.clear();
    if (want_score_) means_.prepare();
    if (request_.means) return find_means();
    if (want_score_ && p_.normalizer->threshold == Threshold::none && want_normalizer_)
      normalizer_parts_.resize(static_cast<std::size_t>(total * chunks_ * kMaxSlots));
    find_visits();
    if (want_score_ || want_dv_)
      for (std::int64_t start = 0; start < total; start += heads_.wave_size())
        run_wave(start, std::min(heads_.wave_size(), total - start));
    dq_.finish();
    dk_.finish();
    dbias_.finish();
    for (Sink<T>& v : dv_) v.finish();
    for (ParameterSink<T>& s : parameters_) s.finish();
    if (want_normalizer_) store_normalizer_gradients();
  }

 private:
  // What the tasks of a wave compute.
  enum class Pass {
    first,
    correct,  // what takes the errors of δ from gradients that are added up
    rewrite,  // gradients that are converted as they are written, again, of the heads whose δ was corrected
  };

  // Whether each head has its own, so that one item alone writes a row.
  bool has_own(const Operand& o) const {
    return o.group == 1 && o.batches == p_.batch && heads_.wave_size() >= p_.batch * p_.heads;
  }

  // Gradients of a narrower type need no copy in the compute type where each row is written once. What is wrong with δ is
  // known only afterwards, so a head is computed twice then: with few blocks of queries that costs no more than a correction.
  // Which gradients are asked for does not matter: it changes no bit of the others.
  bool may_rewrite() const {
    constexpr std::int64_t kFewBlocks = 4;
    const auto none_given = [](const std::vector<ParameterValue>& values) {
      return std::ranges::none_of(values, [](const ParameterValue& value) { return value.given; });
    };
    return blocks_ <= kFewBlocks && p_.keys > 0 && p_.uses_content && p_.is_softmax() && !p_.bias && !heads_.maps_q() &&
           !heads_.maps_k() && !heads_.maps_relative() && none_given(p_.parameters) &&
           none_given(p_.normalizer_parameters) && heads_.visibility().is_whole() &&
           prototype_.program->visible_tile == nullptr;
  }

  static View find(const Gradients& gradients, const ParameterValue& value) {
    for (const NamedGradient& g : gradients.parameters)
      if (g.name == value.spec->name) return g.value;
    return {};
  }

  // What the gradients of one head's parameters take while they are added up.
  static std::int64_t wave_bytes(const Problem& p, const Gradients& gradients) {
    std::int64_t bytes = 0;
    for (const ParameterValue& value : p.parameters)
      if (find(gradients, value)) bytes += ParameterSink<T>::wave_bytes(value);
    return bytes;
  }

  // softmax: the sink has a weight and no value, so ∂sink = −Σ weight·δ. Others: what the tiles added up.
  void store_normalizer_gradients() const {
    const bool softmax = p_.normalizer->threshold == Threshold::exponential;
    for (std::size_t n = 0; n < normalizer_views_.size(); ++n) {
      if (!normalizer_views_[n]) continue;
      const ParameterValue& value = p_.normalizer_parameters[n];
      std::vector<double> sums(static_cast<std::size_t>(value.per_head ? p_.heads : 1));
      for (std::int64_t b = 0; b < p_.batch; ++b)
        for (std::int64_t h = 0; h < p_.heads; ++h) {
          double& sum = sums[static_cast<std::size_t>(value.per_head ? h : 0)];
          const std::int64_t head = b * p_.heads + h;
          for (std::int64_t i = 0; i < p_.queries && softmax; ++i) {
            const auto row = static_cast<std::size_t>(head * p_.queries + i);
            const T total = rows_.sum<T>()[row];
            if (total == T(0)) continue;
            const T weight = std::exp(value.template head<T>(h)[0] - rows_.max<T>()[row]) / total;
            sum -= static_cast<double>(weight) * static_cast<double>(means_.of_head(head)[i]);
          }
          for (std::int64_t c = 0; c < chunks_ && !softmax; ++c)
            sum += normalizer_parts_[static_cast<std::size_t>((head * chunks_ + c) * kMaxSlots) + n];
        }
      store_array(sums.data(), normalizer_views_[n]);
    }
  }

  struct Item {
    std::size_t head = 0;
    std::int64_t chunk = 0;
  };

  // What the kernel calls for one item.
  class Order final : public BackwardOrder<T> {
   public:
    Order(Backward& backward, const Head<T>& head, const Item& item) : self_(backward), head_(head), item_(item) {}

    bool enter_block(std::int64_t block) override {
      ++visits;
      if (self_.pass_ == Pass::rewrite) return self_.visits_of(head_).meet(block, item_.chunk);
      if (self_.adds_by_offset_) self_.progress_->pass(place(), block);
      if (!self_.visits_of(head_).meet(block, item_.chunk)) return false;
      if (self_.adds_bias_rows_)
        self_.bias_tickets_->wait(bias_place(block), self_.bias_sharing_->before(item_.head, [&](std::size_t n) {
          return std::int64_t{self_.visits_of(self_.wave_[n]).meet(block, item_.chunk)};
        }));
      return true;
    }
    void begin_block(std::int64_t block) override {
      if (self_.pass_ == Pass::rewrite) return;
      if (const std::int64_t before = self_.visits_of(head_).previous(item_.chunk);
          self_.adds_by_offset_ && before >= 0)
        self_.progress_->wait(place() - item_.chunk + before, block);
      self_.query_tickets_->wait(query_place(block), self_.query_ordinal(item_, block));
    }
    void end_block(std::int64_t block) override {
      if (self_.pass_ == Pass::rewrite) return;
      self_.query_tickets_->done(query_place(block));
      if (self_.adds_bias_rows_) self_.bias_tickets_->done(bias_place(block));
    }
    void finish(const T* dk, std::ptrdiff_t dk_stride, T* const* dv, const std::ptrdiff_t* dv_stride) override {
      self_.finish_item(head_, item_, bias_strip, dk, dk_stride, dv, dv_stride);
    }

    std::int64_t visits = 0;
    std::vector<T> bias_strip;  // the gradient of a bias that all queries share, of the item's keys

   private:
    std::int64_t place() const { return static_cast<std::int64_t>(item_.head) * self_.chunks_ + item_.chunk; }
    std::int64_t query_place(std::int64_t block) const {
      return self_.q_sharing_->place[item_.head] * self_.blocks_ + block;
    }
    std::int64_t bias_place(std::int64_t block) const { return self_.bias_place(item_, block); }

    Backward& self_;
    const Head<T>& head_;
    const Item item_;
  };

  // Sums by offset are added to by one chunk after the other: of two that add to the same offset the later one does so in a
  // later block, once the earlier one is past that block: chunks take their turns in ascending order.
  void find_visits() {
    const bool all = heads_.visibility().is_whole();
    for (const ParameterSink<T>& s : parameters_) adds_by_offset_ = adds_by_offset_ || s.adds_by_offset();
    const std::int64_t batches = all ? 1 : p_.batch;
    for (std::int64_t b = 0; b < batches; ++b)
      visits_.emplace_back(heads_.visibility(), b, p_.queries, p_.keys, kernels_.backward_rows, chunk_, all,
                           adds_by_offset_);
  }
  const BlockVisits& visits_of(const Head<T>& head) const {
    return visits_[visits_.size() == 1 ? 0 : static_cast<std::size_t>(head.b)];
  }

  void find_means() {
    const std::int64_t total = p_.normalizer->threshold == Threshold::solved ? p_.batch * p_.heads : 0;
    for (std::int64_t start = 0; start < total; start += heads_.wave_size()) {
      wave_.clear();
      heads_.prepare(start, std::min(heads_.wave_size(), total - start), wave_);
      means_.add_slope_means(wave_, prototype_);
    }
    *request_.means = means_.all();
  }

  // The turn of an item at the rows of dq of a block: after the chunks before it, and the heads before it of its own.
  std::int64_t query_ordinal(const Item& item, std::int64_t block) const {
    const Sharing& sharing = *q_sharing_;
    if (sharing.count[item.head] == 1) return visits_of(wave_[item.head]).before(block, item.chunk);
    std::int64_t before = sharing.before(
        item.head, [&](std::size_t n) { return std::int64_t{visits_of(wave_[n]).meet(block, item.chunk)}; });
    sharing.for_each(item.head, [&](std::size_t n) { before += visits_of(wave_[n]).before(block, item.chunk); });
    return before;
  }

  void run_wave(std::int64_t start, std::int64_t count) {
    wave_.clear();
    heads_.prepare(start, count, wave_);
    if (want_score_ && p_.normalizer->threshold == Threshold::solved) means_.add_slope_means(wave_, prototype_);
    add_gradients(count, Pass::first);
    // Pair products round the gradients of scores themselves.
    const double rounding = prototype_.bf16 ? kPairRounding : std::numeric_limits<T>::epsilon() / 2;
    // A number of a score of its own pairs gets the sum of all of them, whose common part may be large.
    const bool strict = prototype_.program->raw && prototype_.program->score && prototype_.slots > 0;
    if (!want_score_ || !means_.find_corrections(wave_, start, kernels_.backward_rows, rounding, strict)) return;
    const auto added_up = [](const Sink<T>& sink) { return sink.wanted() && !sink.converts(); };
    if (!rewrites_ || added_up(dq_) || added_up(dk_)) add_gradients(count, Pass::correct);
    if (dq_.converts() || dk_.converts()) add_gradients(count, Pass::rewrite);
  }

  // Of the heads of the wave.
  void add_gradients(std::int64_t count, Pass pass) {
    pass_ = pass;
    const auto sharing = [&](const Operand& operand) {
      return Sharing(wave_.size(), [&](std::size_t n) { return operand.slice(wave_[n].b, wave_[n].h); });
    };
    q_sharing_ = sharing(p_.q);
    k_sharing_ = sharing(p_.k);
    v_sharing_.clear();
    for (const Operand& v : p_.v) v_sharing_.push_back(sharing(v));
    bias_sharing_.reset();
    if (dbias_.wanted()) bias_sharing_ = sharing(p_.bias);
    query_tickets_ = std::make_unique<Tickets>(q_sharing_->places * blocks_);
    key_tickets_ = std::make_unique<Tickets>(k_sharing_->places * chunks_);
    value_tickets_.clear();
    for (const Sharing& s : v_sharing_) value_tickets_.push_back(std::make_unique<Tickets>(s.places * chunks_));
    if (bias_sharing_)
      bias_tickets_ = std::make_unique<Tickets>(bias_sharing_->places * chunks_ * (adds_bias_rows_ ? blocks_ : 1));
    if (adds_by_offset_) progress_ = std::make_unique<ChunkProgress>(chunks_ * count);
    map_gradients_ =
        std::make_unique<MapGradients<T>>(p_, kernels_, heads_, wave_, dq_.wanted(), dk_.wanted(), parameters_);

    const std::int64_t tasks = chunks_ * count;
    const int workers = static_cast<int>(std::min<std::int64_t>(p_.threads, tasks));
    for (ParameterSink<T>& s : parameters_) s.begin_wave(wave_, prototype_, workers);
    BackwardTask<T> sample;
    sample.head = &prototype_;
    sample.most_keys = chunk_;
    while (static_cast<int>(workspaces_.size()) < workers)
      workspaces_.emplace_back(kernels_.backward_workspace(sample));
    parallel_for(tasks, workers, [&](std::int64_t n, int worker) {
      try {
        run_item({static_cast<std::size_t>(n % count), n / count}, worker);
      } catch (...) {
        abandon_tickets();
        throw;
      }
    });
    for (ParameterSink<T>& s : parameters_) s.end_wave();
    map_gradients_->run(dq_, dk_, q_sharing_->places == count && k_sharing_->places == count);
  }

  void abandon_tickets() {
    query_tickets_->abandon();
    key_tickets_->abandon();
    for (const auto& tickets : value_tickets_) tickets->abandon();
    if (bias_tickets_) bias_tickets_->abandon();
    if (progress_) progress_->abandon();
    for (ParameterSink<T>& s : parameters_) s.abandon();
  }

  void run_item(const Item& item, int worker) {
    const Head<T>& head = wave_[item.head];
    if (pass_ == Pass::rewrite && !means_.is_corrected(head.b * p_.heads + head.h)) return;
    HeadTask<T> head_task = head.task;
    Order order(*this, head, item);

    BackwardTask<T> task;
    task.head = &head_task;
    task.first_key = item.chunk * chunk_;
    task.count = std::min(chunk_, p_.keys - task.first_key);
    task.most_keys = chunk_;
    std::vector<MatrixRef> grad_out;
    for (const Operand& g : grad_out_) grad_out.push_back(g.at(head.b, head.h));
    task.grad_out = grad_out.data();
    const std::int64_t number = head.b * p_.heads + head.h;
    task.row_max = rows_.max<T>() + number * p_.queries;
    task.row_sum = rows_.sum<T>() + number * p_.queries;
    if (pass_ == Pass::correct) {
      task.delta = means_.corrections(number);
      task.correct = means_.corrected_blocks(number);
    } else if (means_.is_prepared()) {
      task.delta = means_.of_head(number);
      task.delta_rest = means_.rest_of_head(number);
      task.score_sums = pass_ == Pass::first ? means_.score_sums(number) : nullptr;
      task.score_sizes = means_.score_sizes(number);
    }
    task.order = &order;
    task.first_block = visits_of(head).first_block(item.chunk);
    task.last_block = visits_of(head).last_block(item.chunk);
    map_gradients_->targets(item.head, head, dq_, task);
    if (dq_.converts() && pass_ != Pass::correct) task.dq_rows = dq_.rows(head.b, head.h);
    if (dq_.converts() || pass_ == Pass::rewrite) task.dq = task.dq_relative = nullptr;
    task.want_dk = (dk_.wanted() && computes(dk_)) || map_gradients_->wants_k();
    task.want_dv = want_dv_ && pass_ == Pass::first;
    task.want_score = want_score_;
    Places places;
    find_places(head, item, places, task);
    find_rows(head, places, task);
    if (dbias_.wanted()) {
      if (!adds_bias_rows_) {
        order.bias_strip.assign(static_cast<std::size_t>(task.count), T(0));
        task.dbias = order.bias_strip.data();
        task.dbias_first = task.first_key;
      } else {
        task.dbias = dbias_.at(head.b, head.h);
        task.dbias_stride = dbias_.row_stride();
      }
    }
    double value_grads[kMaxSlots] = {};
    task.value_grads = value_grads;
    const std::int64_t place = number * chunks_ + item.chunk;
    if (!normalizer_parts_.empty()) task.normalizer_grads = normalizer_parts_.data() + place * kMaxSlots;
    for (ParameterSink<T>& s : parameters_) s.bind(item.head, item.chunk, worker, head_task, task);
    task.workspace = workspaces_[static_cast<std::size_t>(worker)].template as<char>();
    kernels_.backward(task);
    if (adds_by_offset_) progress_->pass(static_cast<std::int64_t>(item.head) * chunks_ + item.chunk, blocks_);
    visited_blocks.fetch_add(order.visits, std::memory_order_relaxed);
    for (ParameterSink<T>& s : parameters_) s.finish_task(item.head, item.chunk, worker, value_grads);
  }

  // In this pass.
  bool computes(const Sink<T>& sink) const {
    return pass_ == Pass::first || (pass_ == Pass::rewrite) == sink.converts();
  }

  std::int64_t bias_place(const Item& item, std::int64_t block) const {
    return (bias_sharing_->place[item.head] * (adds_bias_rows_ ? blocks_ : 1) + block) * chunks_ + item.chunk;
  }

  void finish_item(const Head<T>& head, const Item& item, const std::vector<T>& bias_strip, const T* dk,
                   std::ptrdiff_t dk_stride, T* const* dv, const std::ptrdiff_t* dv_stride) {
    const std::size_t n = item.head;
    const std::int64_t first = item.chunk * chunk_;
    const std::int64_t count = std::min(chunk_, p_.keys - first);
    if (T* mapped = map_gradients_->mapped_dk(n)) {
      add_rows(dk, dk_stride, count, p_.inner, mapped + first * heads_.inner_pad(), heads_.inner_pad());
    } else if (dk_.wanted() && !dk_.converts() && p_.uses_content && computes(dk_)) {
      const std::int64_t place = k_sharing_->place[n] * chunks_ + item.chunk;
      key_tickets_->wait(place, k_sharing_->rank[n]);
      leave_rows(dk, dk_stride, count, p_.key_dim, dk_.at(head.b, head.h) + first * dk_.row_stride(), dk_.row_stride(),
                 k_sharing_->rank[n]);
      key_tickets_->done(place);
    }
    for (std::size_t s = 0; s < dv_.size(); ++s) {
      if (!dv_[s].wanted() || dv_[s].converts() || pass_ != Pass::first) continue;
      const std::int64_t place = v_sharing_[s].place[n] * chunks_ + item.chunk;
      value_tickets_[s]->wait(place, v_sharing_[s].rank[n]);
      leave_rows(dv[s], dv_stride[s], count, p_.v[s].dim, dv_[s].at(head.b, head.h) + first * dv_[s].row_stride(),
                 dv_[s].row_stride(), v_sharing_[s].rank[n]);
      value_tickets_[s]->done(place);
    }
    if (!bias_strip.empty()) {
      const std::int64_t place = bias_place(item, 0);
      bias_tickets_->wait(place, bias_sharing_->rank[n]);
      add_rows(bias_strip.data(), count, 1, count, dbias_.at(head.b, head.h) + first, 0);
      bias_tickets_->done(place);
    }
  }

  // Where a task adds up dv.
  struct Places {
    std::vector<T*> rows;
    std::vector<std::ptrdiff_t> strides;
    std::vector<MatrixRef> converted;
  };

  // What is converted the kernel writes itself.
  void find_rows(const Head<T>& head, Places& places, BackwardTask<T>& task) const {
    if (task.want_dk && dk_.converts()) task.dk_rows = dk_.rows(head.b, head.h);
    for (const Sink<T>& v : dv_)
      places.converted.push_back(task.want_dv && v.converts() ? v.rows(head.b, head.h) : MatrixRef{});
    task.dv_rows = places.converted.data();
  }

  // What one block of queries makes and no other head shares is written where it is wanted; products write whole vectors.
  void find_places(const Head<T>& head, const Item& item, Places& places, BackwardTask<T>& task) const {
    if (!writes_ || pass_ != Pass::first || blocks_ > 1 || prototype_.bf16) return;
    const std::int64_t first = item.chunk * chunk_;
    const auto place = [&](const Sink<T>& sink, const Sharing& sharing, std::int64_t dim) -> T* {
      const bool fits = sink.wanted() && !sink.converts() && sharing.count[item.head] == 1 && dim % kernels_.pad == 0;
      return fits ? sink.at(head.b, head.h) + first * sink.row_stride() : nullptr;
    };
    if (p_.uses_content && !heads_.maps_k()) task.dk = place(dk_, *k_sharing_, p_.key_dim);
    task.dk_stride = dk_.row_stride();
    for (std::size_t s = 0; s < dv_.size(); ++s) {
      places.rows.push_back(place(dv_[s], v_sharing_[s], p_.v[s].dim));
      places.strides.push_back(dv_[s].row_stride());
    }
    task.dv = places.rows.data();
    task.dv_stride = places.strides.data();
  }

  // Of dk or dv, by the head of that rank among those that share it.
  void leave_rows(const T* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t dim, T* to,
                  std::ptrdiff_t to_stride, std::int64_t rank) const {
    if (from == to) return;
    if (!writes_ || pass_ != Pass::first || rank > 0) return add_rows(from, from_stride, rows, dim, to, to_stride);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_stride, dim, to + r * to_stride);
  }

  static void add_rows(const T* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t dim, T* to,
                       std::ptrdiff_t to_stride) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t d = 0; d < dim; ++d) to[r * to_stride + d] += from[r * from_stride + d];
  }

  const Problem& p_;
  const BackwardRequest& request_;
  const Kernels<T>& kernels_;
  HeadWaves<T> heads_;
  const std::vector<Operand>& grad_out_;
  Saved::Rows& rows_;
  RowMeans<T> means_;
  HeadTask<T> prototype_;
  std::int64_t chunk_ = 0, chunks_ = 0, blocks_ = 0;
  bool rewrites_ = false;  // gradients may be converted as they are written
  Sink<T> dq_, dk_, dbias_;
  std::vector<Sink<T>> dv_;
  std::vector<ParameterSink<T>> parameters_;
  bool want_dv_ = false, want_score_ = false, adds_by_offset_ = false;
  bool writes_ = false;                   // dk and dv are written before anything is added
  bool adds_bias_rows_ = false;           // to a gradient with a row for every query
  std::vector<BlockVisits> visits_;       // of each batch, or one for all
  std::vector<View> normalizer_views_;    // null: not wanted
  std::vector<double> normalizer_parts_;  // [batch·heads][chunks][kMaxSlots]
  bool want_normalizer_ = false;
  std::vector<Buffer> workspaces_;

  // Of the wave that runs now.
  Pass pass_ = Pass::first;
  std::vector<Head<T>> wave_;
  std::optional<Sharing> q_sharing_, k_sharing_, bias_sharing_;
  std::vector<Sharing> v_sharing_;
  std::unique_ptr<Tickets> query_tickets_, key_tickets_, bias_tickets_;
  std::unique_ptr<ChunkProgress> progress_;  // of sums by offset
  std::vector<std::unique_ptr<Tickets>> value_tickets_;
  std::unique_ptr<MapGradients<T>> map_gradients_;
};

}  // namespace

bool all_narrow(const BackwardRequest& request) {
  const auto narrow = [](const View& view) { return !view || view.dtype == Dtype::bf16; };
  return !request.means && narrow(request.gradients.q) && narrow(request.gradients.k) &&
         std::ranges::all_of(request.gradients.v, narrow) &&
         std::ranges::all_of(request.grad_out, [](const Operand& g) { return g.dtype == Dtype::bf16; });
}

void tiled_backward(const Problem& problem, const BackwardRequest& request, const Saved::Rows& rows) {
  if (groups_heads(problem)) return grouped_backward(problem, request, rows);
  if (short_backward(problem, request, rows)) return;
  if (problem.is_double) Backward<double>(problem, request, rows).run();
  else Backward<float>(problem, request, rows).run();
}

}  // namespace rapt::inline v1
