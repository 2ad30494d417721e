#include <algorithm>
#include <array>
#include <utility>

#include "models/transformer.h"
#include "tensor/pack_cache.h"

namespace rapt::inline v1::models {

using layers::Graph;

// Rows of earlier steps, reordered as hypotheses branch and end.
template <class T>
class StepCache {
 public:
  void reorder(std::span<const int> parents) {
    if (steps_ == 0) return;
    move(static_cast<std::int64_t>(parents.size()), capacity_,
         [&](std::int64_t n) { return parents[static_cast<std::size_t>(n)]; });
  }

  // Adds one step, [1, hypotheses, width].
  void push(const Tensor<T>& step) {
    width_ = step.size(2);
    if (steps_ == capacity_)
      move(step.size(1), std::max(kFirstCapacity, 2 * capacity_), [](std::int64_t n) { return n; });
    std::copy_n(step.data, count_ * width_, rows_ + steps_ * stride());
    ++steps_;
  }

  // [steps, hypotheses, width]
  Tensor<T> all() const {
    Tensor<T> t;
    t.data = rows_;
    t.rank = 3;
    t.shape = {steps_, count_, width_, 0};
    t.strides = {stride(), width_, 1, 0};
    return t;
  }

 private:
  static constexpr std::int64_t kFirstCapacity = 32;

  // Numbers of one step.
  std::int64_t stride() const { return count_ * width_; }

  template <class F>
  void move(std::int64_t count, std::int64_t capacity, F&& from) {
    const T* rows = rows_;
    const std::int64_t before = stride();
    count_ = count, capacity_ = capacity;
    Arena64& memory = memory_[current_ ^= 1];
    memory.reset();
    rows_ = static_cast<T*>(memory.take(static_cast<std::size_t>(capacity * stride()) * sizeof(T)));
    for (std::int64_t t = 0; t < steps_; ++t)
      for (std::int64_t n = 0; n < count; ++n)
        std::copy_n(rows + t * before + from(n) * width_, width_, rows_ + t * stride() + n * width_);
  }

  T* rows_ = nullptr;  // [capacity, hypotheses, width]
  std::int64_t count_ = 0, capacity_ = 0, steps_ = 0, width_ = 0;
  std::array<Arena64, 2> memory_;
  std::size_t current_ = 0;
};

// One query at a time, at its own position, with the bits of the full pass.
template <class T>
class TransformerDecoder final : public Decoder<T> {
 public:
  TransformerDecoder(const Transformer& model, const layers::Parameters& parameters, const T* values,
                     const Batch& sources, std::shared_ptr<PackCache<T>> packs)
      : model_(model),
        parameters_(parameters),
        values_(values),
        lengths_(sources.source_lengths),
        packs_(std::move(packs)) {
    encoding_.use(packs_.get());
    tape_.use(packs_.get());
    Graph<T> graph(encoding_, parameters, values, nullptr);
    const Tensor<T> memory = model.encode(graph, sources);
    blocks_.resize(model.decoder_.size());
    for (std::size_t l = 0; l < blocks_.size(); ++l)
      blocks_[l].source = model.decoder_[l].cross.keys_values(graph, memory, 0);
    source_of_.resize(lengths_.size());
    for (std::size_t n = 0; n < source_of_.size(); ++n) source_of_[n] = static_cast<int>(n);
  }

  std::int64_t symbols() const override { return model_.sizes_.target_symbols; }

  const T* step(std::span<const int> tokens, std::span<const int> parents) override {
    bool unchanged = parents.size() == source_of_.size();
    for (std::size_t n = 0; unchanged && n < parents.size(); ++n) unchanged = parents[n] == static_cast<int>(n);
    if (!unchanged) follow(parents);
    tape_.reset();
    Graph<T> graph = this->step_graph(tape_, parameters_, values_);
    const auto count = static_cast<std::int64_t>(tokens.size());
    Mask known;
    known.key_lengths = lengths_now_.empty() ? lengths_ : lengths_now_;
    Tensor<T> x = model_.embed(graph, model_.target_embedding_, model_.target_positions_, model_.target_narrow_, tokens,
                               count, steps_);
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      const Transformer::DecoderBlock& block = model_.decoder_[l];
      BlockState& state = blocks_[l];
      const auto before = tape_.mark();
      x = model_.residual(graph, block.self_norm, x, [&](const Tensor<T>& in) {
        const layers::KeysValues<T> fresh = block.self.keys_values(graph, in, steps_);
        state.keys.push(fresh.k);
        state.values.push(fresh.v);
        return ask(graph, block.self, in, {state.keys.all(), state.values.all()}, {});
      });
      x = model_.residual(graph, block.cross_norm, x, [&](const Tensor<T>& in) {
        return ask(graph, block.cross, in, lengths_now_.empty() ? state.source : state.source_now, known);
      });
      x = model_.residual(graph, block.inner_norm, x, [&](const Tensor<T>& in) { return block.inner(graph, in); });
      x = tape_.keep_only(before, x);
    }
    ++steps_;
    return model_.output(graph, x).data;
  }

 private:
  struct BlockState {
    StepCache<T> keys, values;
    layers::KeysValues<T> source;
    layers::KeysValues<T> source_now;  // of the hypotheses, after branching
  };

  // One query, at the position of this step.
  Tensor<T> ask(Graph<T>& graph, const layers::MultiHeadAttention& attention, const Tensor<T>& in,
                const layers::KeysValues<T>& memory, const Mask& mask) {
    const Tensor<T> query = attention.queries(graph, in, steps_);
    return attention.project(graph, attention.attend(graph, query, memory, {.mask = mask, .first_query = steps_}));
  }

  // The hypotheses become those of `parents`.
  void follow(std::span<const int> parents) {
    std::vector<int> next;
    for (const int p : parents) next.push_back(source_of_[static_cast<std::size_t>(p)]);
    for (BlockState& state : blocks_)
      for (StepCache<T>* cache : {&state.keys, &state.values}) cache->reorder(parents);
    if (next == source_of_) return;
    source_of_.swap(next);
    lengths_now_.clear();
    for (const int s : source_of_) lengths_now_.push_back(lengths_[static_cast<std::size_t>(s)]);
    sources_now_.reset();
    for (BlockState& state : blocks_) state.source_now = {columns(state.source.k), columns(state.source.v)};
  }

  Tensor<T> columns(const Tensor<T>& from) {
    const auto count = static_cast<std::int64_t>(source_of_.size());
    const std::int64_t width = from.size(2);
    const Tensor<T> to = sources_now_.make({from.size(0), count, width});
    for (std::int64_t s = 0; s < from.size(0); ++s)
      for (std::int64_t n = 0; n < count; ++n)
        std::copy_n(from.data + (s * from.size(1) + source_of_[static_cast<std::size_t>(n)]) * width, width,
                    to.data + (s * count + n) * width);
    return to;
  }

  const Transformer& model_;
  const layers::Parameters& parameters_;
  const T* values_;
  std::vector<std::int64_t> lengths_, lengths_now_;
  std::shared_ptr<PackCache<T>> packs_;
  Tape<T> encoding_{false};
  Tape<T> sources_now_{false};
  Tape<T> tape_{false};
  std::vector<BlockState> blocks_;
  std::vector<int> source_of_;
  std::int64_t steps_ = 0;
};

template <class T>
std::unique_ptr<Decoder<T>> Transformer::decoder(const layers::Parameters& parameters, const T* values,
                                                 const Batch& sources, std::shared_ptr<PackCache<T>> packs) const {
  return std::make_unique<TransformerDecoder<T>>(*this, parameters, values, sources, std::move(packs));
}

template std::unique_ptr<Decoder<float>> Transformer::decoder(const layers::Parameters&, const float*, const Batch&,
                                                              std::shared_ptr<PackCache<float>>) const;
template std::unique_ptr<Decoder<double>> Transformer::decoder(const layers::Parameters&, const double*, const Batch&,
                                                               std::shared_ptr<PackCache<double>>) const;

}  // namespace rapt::inline v1::models
