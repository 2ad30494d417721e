#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "layers/attention_log.h"
#include "tensor/array.h"

namespace rapt::explorer {

// The attention weights of one layer, whatever their source; rows are computed on demand.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual std::int64_t heads() const = 0;
  virtual std::int64_t queries() const = 0;
  virtual std::int64_t keys() const = 0;
  // Rows [begin, end) of one head, [end − begin, keys].
  virtual void rows(std::int64_t head, std::int64_t begin, std::int64_t end, float* out) const = 0;
};

// Recomputed by the engine from a layer's record.
class RecordedWeights final : public Weights {
 public:
  explicit RecordedWeights(layers::AttentionRecord record, std::int64_t batch = 0)
      : record_(std::move(record)), batch_(batch) {}
  std::int64_t heads() const override { return record_.heads(); }
  std::int64_t queries() const override { return record_.rows(); }
  std::int64_t keys() const override { return record_.keys(); }
  void rows(std::int64_t head, std::int64_t begin, std::int64_t end, float* out) const override {
    record_.weights(batch_, head, begin, end, out);
  }

 private:
  layers::AttentionRecord record_;
  std::int64_t batch_;
};

// One layer of an array [layers, heads, queries, keys] of f32.
class StoredWeights final : public Weights {
 public:
  StoredWeights(std::shared_ptr<const Array> array, std::int64_t layer) : array_(std::move(array)), layer_(layer) {}
  std::int64_t heads() const override { return array_->shape()[1]; }
  std::int64_t queries() const override { return array_->shape()[2]; }
  std::int64_t keys() const override { return array_->shape()[3]; }
  void rows(std::int64_t head, std::int64_t begin, std::int64_t end, float* out) const override;

 private:
  std::shared_ptr<const Array> array_;
  std::int64_t layer_;
};

// A head's summary: means over the rows that see any key.
struct HeadSummary {
  double entropy = 0;   // in nats
  double distance = 0;  // from the query to where it looks, in positions, or in cells of the grid
  double largest = 0;   // of a row's weights
  double peak = 0;      // the largest weight of all
  // The thumbnail, [rows, cols]: 255·√(weight / peak), with the largest weight of each cell.
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::uint8_t> thumbnail;
};

inline constexpr std::int64_t kThumbnailSide = 48;

// grid {0, 0}: positions are on a line.
HeadSummary summarize(const Weights& weights, std::int64_t head, std::array<std::int64_t, 2> grid);

// Part of a map: queries [top, bottom) and keys [left, right).
struct Part {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;
};

// That part in at most height × width cells, each the largest weight in it; cell (y, x) begins with query top +
// y·(bottom − top)/height. There are no more cells than queries or keys.
struct Pooled {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<float> cells;
};
Pooled pool(const Weights& weights, std::int64_t head, const Part& part, std::int64_t height, std::int64_t width);

}  // namespace rapt::explorer
