#include "tasks/image_objective.h"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "tasks/head_places.h"
#include "tensor/random.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::int64_t kTogether = 32;  // images of one forward pass
constexpr std::int64_t kShown = 16;     // images whose attention is recorded
constexpr int kNoLabel = -1;

}  // namespace

training::Scores classification_scores(const models::ImageClassifier& model, const float* values, const ImageData& data,
                                       const ChannelStatistics& statistics, int threads,
                                       const std::function<bool()>& stop, const training::Processes& processes) {
  const std::int64_t chunks = (data.count() + kTogether - 1) / kTogether;
  std::vector<LossSums> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, threads, [&](std::int64_t chunk, int) {
    if (!processes.computes(chunk) || (stop && stop())) return;
    const std::int64_t first = chunk * kTogether, count = std::min(kTogether, data.count() - first);
    std::vector<float> images(static_cast<std::size_t>(count * data.image_size()));
    for (std::int64_t n = 0; n < count; ++n)
      normalized_image(data, first + n, statistics, images.data() + n * data.image_size());
    Tape<float> tape(false);
    layers::Graph<float> graph(tape, model.parameters(), values, nullptr);
    const Tensor<float> logits = model.logits<float>(graph, images.data(), count);
    const std::span<const int> labels(data.labels.data() + first, static_cast<std::size_t>(count));
    sums[static_cast<std::size_t>(chunk)] = cross_entropy(tape, logits, labels, kNoLabel, 0.0F, 1.0F);
  });
  processes.share_results(std::span(sums));
  LossSums total;
  for (const LossSums& s : sums) {
    total.loss += s.loss;
    total.tokens += s.tokens;
    total.correct += s.correct;
  }
  const double count = static_cast<double>(std::max<std::int64_t>(1, total.tokens));
  training::Scores scores;
  scores.loss = total.loss / count;
  scores.goal = static_cast<double>(total.correct) / count;
  scores.list = {{"images", static_cast<double>(total.tokens), training::Score::Form::count},
                 {"accuracy", scores.goal}};
  return scores;
}

ImageObjective::ImageObjective(const models::ImageClassifier& model, const ImageTask& data,
                               const ChannelStatistics& statistics, const Augmentation& augmentation,
                               const training::TrainOptions& options)
    : model_(model), data_(data), statistics_(statistics), augmentation_(augmentation), options_(options) {
  if (data.train.count() < 1) throw Error("train: expected images to train on, got none");
  order_.resize(static_cast<std::size_t>(data.train.count()));
  start_epoch(0);
}

std::int64_t ImageObjective::batches() const { return (data_.train.count() + options_.batch - 1) / options_.batch; }

void ImageObjective::start_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  Random random(options_.seed, epoch, 0x696d61676573);
  random.shuffle(std::span<std::int64_t>(order_));
}

std::int64_t ImageObjective::prepare(std::int64_t n, std::int64_t part, std::int64_t parts) {
  if (static_cast<std::int64_t>(parts_.size()) < parts) parts_.resize(static_cast<std::size_t>(parts));
  Part& to = parts_[static_cast<std::size_t>(part)];
  to.labels.clear();
  const ImageData& data = data_.train;
  const std::int64_t end = std::min((n + 1) * options_.batch, data.count());
  to.images.resize(static_cast<std::size_t>((options_.batch / parts + 1) * data.image_size()));
  for (std::int64_t place = n * options_.batch + part; place < end; place += parts) {
    const std::int64_t image = order_[static_cast<std::size_t>(place)];
    float* out = to.images.data() + static_cast<std::int64_t>(to.labels.size()) * data.image_size();
    augmented_image(data, image, statistics_, augmentation_, options_.seed, epoch_, out);
    to.labels.push_back(data.labels[static_cast<std::size_t>(image)]);
  }
  return static_cast<std::int64_t>(to.labels.size());
}

LossSums ImageObjective::loss(layers::Graph<float>& graph, std::int64_t part, float weight) const {
  const Part& from = parts_[static_cast<std::size_t>(part)];
  const Tensor<float> logits =
      model_.logits<float>(graph, from.images.data(), static_cast<std::int64_t>(from.labels.size()));
  return cross_entropy(graph.tape, logits, from.labels, kNoLabel, static_cast<float>(options_.label_smoothing), weight);
}

std::optional<training::Scores> ImageObjective::validate(const float* values, int threads,
                                                         const training::Processes& processes) const {
  if (data_.valid.count() == 0) return std::nullopt;
  return classification_scores(model_, values, data_.valid, statistics_, threads, {}, processes);
}

nlohmann::json ImageObjective::record(const float* values) const {
  if (!model_.attention()) return nullptr;
  if (has_places_in_parameters(*model_.attention())) return to_json(places_of_parameters(model_, values));
  const ImageData& data = data_.valid.count() > 0 ? data_.valid : data_.train;
  const std::int64_t count = std::min(kShown, data.count());
  std::vector<float> images(static_cast<std::size_t>(count * data.image_size()));
  for (std::int64_t n = 0; n < count; ++n)
    normalized_image(data, n, statistics_, images.data() + n * data.image_size());
  return to_json(places_of_attention(model_, values, images.data(), count));
}

}  // namespace rapt::inline v1::tasks
