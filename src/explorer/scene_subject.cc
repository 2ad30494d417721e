#include "explorer/scene_subject.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "layers/attention_log.h"
#include "rapt/error.h"
#include "training/not_finite.h"

namespace rapt::explorer {
namespace {

std::int64_t root_of(std::int64_t square) {
  return static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(square))));
}

// A square grid whose cells attend within square windows: the batch of the record is the windows, row by row. Cells of
// other windows have no weight.
class WindowedWeights final : public Weights {
 public:
  explicit WindowedWeights(layers::AttentionRecord record)
      : record_(std::move(record)),
        window_(root_of(record_.rows())),
        side_(root_of(record_.batches() * record_.rows())) {
    if (window_ * window_ != record_.rows() || side_ % window_ != 0 || side_ * side_ != queries())
      throw Error("explore: " + record_.name + ": expected square windows that divide a square grid, got " +
                  std::to_string(record_.batches()) + " windows of " + std::to_string(record_.rows()) + " cells");
  }
  std::int64_t side() const { return side_; }
  std::int64_t heads() const override { return record_.heads(); }
  std::int64_t queries() const override { return record_.batches() * record_.rows(); }
  std::int64_t keys() const override { return queries(); }

  void rows(std::int64_t head, std::int64_t begin, std::int64_t end, float* out) const override {
    std::fill_n(out, (end - begin) * keys(), 0.0F);
    // Adjacent cells of a window's row are adjacent rows of its map.
    std::vector<float> part;
    for (std::int64_t first = begin; first < end;) {
      const std::int64_t row = first / side_;
      const std::int64_t col = first % side_;
      const std::int64_t count = std::min(window_ - col % window_, end - first);
      const std::int64_t top = row / window_ * window_;
      const std::int64_t left = col / window_ * window_;
      const std::int64_t place = (row - top) * window_ + col - left;
      part.resize(static_cast<std::size_t>(count * record_.keys()));
      record_.weights(row / window_ * (side_ / window_) + col / window_, head, place, place + count, part.data());
      for (std::int64_t n = 0; n < count; ++n)
        for (std::int64_t r = 0; r < window_; ++r)
          std::copy_n(part.data() + (n * window_ + r) * window_, window_,
                      out + (first - begin + n) * keys() + (top + r) * side_ + left);
      first += count;
    }
  }

 private:
  layers::AttentionRecord record_;
  std::int64_t window_, side_;
};

// The index of a square grid's cells in the list of tokens, where they are added if missing.
std::size_t tokens_of(std::int64_t side, std::vector<std::vector<std::string>>& tokens) {
  const auto known = std::ranges::find_if(
      tokens, [&](const auto& list) { return static_cast<std::int64_t>(list.size()) == side * side; });
  if (known != tokens.end()) return static_cast<std::size_t>(known - tokens.begin());
  std::vector<std::string>& list = tokens.emplace_back();
  for (std::int64_t r = 0; r < side; ++r)
    for (std::int64_t c = 0; c < side; ++c) list.push_back(std::to_string(r) + "," + std::to_string(c));
  return tokens.size() - 1;
}

}  // namespace

SceneSubject::SceneSubject(const std::filesystem::path& run)
    : title_(run.lexically_normal().string()),
      config_(tasks::read_scene_config(run)),
      network_(tasks::make_network(config_)),
      values_(tasks::best_weights(run, network_.parameters())) {}

Exhibit SceneSubject::show(const std::string& number) const {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
  if (error != std::errc() || end != number.data() + number.size() || n < 0 || n >= config_.data.test)
    throw Error("explore: image: expected the number of a test scene, 0 to " + std::to_string(config_.data.test - 1) +
                ", got '" + number + "'");
  const training::PixelExamples scene = tasks::load_scene(config_.data, tasks::Split::test, n);
  Exhibit exhibit;
  exhibit.title = title_;
  exhibit.input = Input::image;
  exhibit.text = number;
  exhibit.picture = {scene.size, scene.size, 3, scene.rgb};
  std::string names;
  for (const models::PixelTask task : network_.tasks())
    names += (names.empty() ? "" : ", ") + std::string(models::info_of(task).name);
  exhibit.target = names;
  exhibit.note = "test scene " + number + ": " + names + "; " +
                 (config_.model.sharing == models::Sharing::shared ? "one map of each decoder stage for all tasks"
                                                                   : "maps of the decoder are of each task's own");

  layers::AttentionLog<float> log;
  try {
    training::predict(network_, values_.data(), scene, 0, &log);
  } catch (const training::NotFinite& overflow) {
    throw training::NotFinite("explore: " + title_ + ": " + overflow.what());
  }
  for (const layers::AttentionRecord& record : log.records()) {
    const auto weights = std::make_shared<WindowedWeights>(record);
    Layer layer;
    layer.name = record.name.substr(0, record.name.rfind(".attention"));
    layer.mechanism = record.options.score.mechanism->name();
    if (record.batches() > 1) layer.mechanism += ", " + std::to_string(record.batches()) + " windows";
    layer.group = layer.name.starts_with("encoder.") ? Group::encoder : Group::decoder;
    layer.grid = {weights->side(), weights->side()};
    layer.query_tokens = layer.key_tokens = tokens_of(weights->side(), exhibit.tokens);
    layer.weights = weights;
    exhibit.layers.push_back(std::move(layer));
  }
  return exhibit;
}

}  // namespace rapt::explorer
