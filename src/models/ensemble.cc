#include "models/ensemble.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1::models {
namespace {

// log(e^a + e^b), also where one of them is −∞ or NaN.
float log_of_sum(float a, float b) {
  const double x = a;
  const double y = b;
  if (x == -std::numeric_limits<double>::infinity()) return b;
  if (y == -std::numeric_limits<double>::infinity()) return a;
  return static_cast<float>(std::max(x, y) + std::log1p(std::exp(-std::abs(x - y))));
}

// The mean of several probability distributions, each given by logits.
class MeanOfRows {
 public:
  MeanOfRows(std::int64_t rows, std::int64_t symbols)
      : rows_(rows), symbols_(symbols), sum_(static_cast<std::size_t>(rows * symbols)) {}

  void add(const float* logits) {
    std::vector<float> row(static_cast<std::size_t>(symbols_));
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::copy_n(logits + r * symbols_, symbols_, row.data());
      tensor_kernels<float>().log_softmax(row.data(), symbols_);
      float* sum = sum_.data() + r * symbols_;
      for (std::int64_t s = 0; s < symbols_; ++s)
        sum[s] = count_ == 0 ? row[static_cast<std::size_t>(s)] : log_of_sum(sum[s], row[static_cast<std::size_t>(s)]);
    }
    ++count_;
  }

  // Log probabilities, [rows, symbols].
  std::vector<float> mean() && {
    const auto shift = static_cast<float>(std::log(static_cast<double>(count_)));
    for (float& x : sum_) x -= shift;
    return std::move(sum_);
  }

 private:
  std::int64_t rows_, symbols_;
  int count_ = 0;
  std::vector<float> sum_;
};

class EnsembleDecoder : public Decoder<float> {
 public:
  explicit EnsembleDecoder(std::vector<std::unique_ptr<Decoder<float>>> decoders) : decoders_(std::move(decoders)) {}

  const float* step(std::span<const int> tokens, std::span<const int> parents) override {
    MeanOfRows rows(static_cast<std::int64_t>(tokens.size()), symbols());
    for (const auto& decoder : decoders_) rows.add(decoder->step(tokens, parents));
    result_ = std::move(rows).mean();
    return result_.data();
  }

  std::int64_t symbols() const override { return decoders_.front()->symbols(); }

 private:
  std::vector<std::unique_ptr<Decoder<float>>> decoders_;
  std::vector<float> result_;
};

Tensor<float> logits_of(Tape<float>& tape, const SequenceModel& model, const float* values, const Batch& batch,
                        Alignment<float>* alignment = nullptr) {
  layers::Graph<float> graph(tape, model.parameters(), values, nullptr);
  return model.logits(graph, batch, alignment);
}

std::string symbols_of(const Sizes& sizes) {
  return counted(sizes.source_symbols, "source symbol") + " and " + counted(sizes.target_symbols, "target symbol");
}

}  // namespace

void Ensemble::add(const SequenceModel& model, const float* values) {
  if (!members_.empty()) {
    const Sizes& first = members_.front().model->sizes();
    const Sizes& sizes = model.sizes();
    if (sizes.source_symbols != first.source_symbols || sizes.target_symbols != first.target_symbols)
      throw Error("ensemble: expected a model of " + symbols_of(first) + ", got one of " + symbols_of(sizes));
  }
  members_.push_back({&model, values});
}

bool Ensemble::has_attention() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& one) { return one.model->has_attention(); });
}

std::int64_t Ensemble::longest_target(std::int64_t source) const {
  std::int64_t longest = 2 * source + 16;
  for (const Member& one : members_) longest = std::max(longest, one.model->sizes().max_target);
  // Tables of positions end with the longest sequence of training, kEnd included.
  for (const Member& one : members_)
    if (one.model->has_length_limit()) longest = std::min(longest, one.model->sizes().max_length - 1);
  return longest;
}

std::shared_ptr<PackCache<float>> Ensemble::packs() const {
  auto packs = std::make_shared<PackCache<float>>();
  for (const Member& one : members_) one.model->add_constants(one.values, *packs);
  return packs;
}

std::unique_ptr<Decoder<float>> Ensemble::decoder(const Batch& sources,
                                                  const std::shared_ptr<PackCache<float>>& packs) const {
  std::vector<std::unique_ptr<Decoder<float>>> decoders;
  for (const Member& one : members_) decoders.push_back(one.model->decoder(one.values, sources, packs));
  if (decoders.size() == 1) return std::move(decoders.front());
  return std::make_unique<EnsembleDecoder>(std::move(decoders));
}

Tensor<float> Ensemble::logits(Tape<float>& tape, const Batch& batch) const {
  const Tensor<float> logits = logits_of(tape, *members_.front().model, members_.front().values, batch);
  if (members_.size() == 1) return logits;
  const std::int64_t count = static_cast<std::int64_t>(batch.target_steps) * batch.size;
  const auto as_rows = [&](const Tensor<float>& x) { return x.reshape({count, x.size(-1)}).data; };
  MeanOfRows rows(count, logits.size(-1));
  rows.add(as_rows(logits));
  for (std::size_t n = 1; n < members_.size(); ++n)
    rows.add(as_rows(logits_of(tape, *members_[n].model, members_[n].values, batch)));
  const std::vector<float> mean = std::move(rows).mean();
  std::copy(mean.begin(), mean.end(), logits.data);
  return logits;
}

Alignment<float> Ensemble::alignment(const Batch& batch) const {
  Alignment<float> mean;
  for (const Member& one : members_) {
    Tape<float> tape(false);
    Alignment<float> own;
    logits_of(tape, *one.model, one.values, batch, &own);
    mean.weights.resize(own.weights.size());
    for (std::size_t n = 0; n < own.weights.size(); ++n)
      mean.weights[n] += own.weights[n] / static_cast<float>(members_.size());
  }
  return mean;
}

}  // namespace rapt::inline v1::models
