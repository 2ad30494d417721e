#include "training/multitask_objective.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "tensor/random.h"
#include "training/not_finite.h"

namespace rapt::inline v1::training {
namespace {

using models::MultitaskNetwork;
using models::PixelTask;

// Pictures per pass during evaluation.
constexpr std::int64_t kAsked = 16;

// Tolerances of the accuracy while training: a quarter of the depth, 30°, a tenth of the brightest.
const double kNearDepth = std::log(1.25);
const double kNearNormal = std::cos(30 * 3.14159265358979 / 180);
constexpr double kNearShade = 0.1;

// Pixel by pixel, then picture by picture.
template <class N>
void lay_out(const std::vector<N>& from, std::span<const std::int64_t> chosen, std::int64_t pixels,
             std::int64_t channels, std::vector<N>& to) {
  const auto batch = static_cast<std::int64_t>(chosen.size());
  to.resize(static_cast<std::size_t>(pixels * batch * channels));
  for (std::int64_t b = 0; b < batch; ++b) {
    const N* picture = from.data() + chosen[static_cast<std::size_t>(b)] * pixels * channels;
    for (std::int64_t p = 0; p < pixels; ++p)
      std::copy_n(picture + p * channels, channels, to.data() + (p * batch + b) * channels);
  }
}

void lay_out(const PixelExamples& from, std::span<const std::int64_t> chosen, PixelExamples& to) {
  const std::int64_t pixels = from.size * from.size;
  to.count = static_cast<std::int64_t>(chosen.size());
  to.size = from.size;
  lay_out(from.rgb, chosen, pixels, 3, to.rgb);
  lay_out(from.segmentation, chosen, pixels, 1, to.segmentation);
  lay_out(from.depth, chosen, pixels, 1, to.depth);
  lay_out(from.normals, chosen, pixels, 3, to.normals);
  lay_out(from.edges, chosen, pixels, 1, to.edges);
  lay_out(from.reshading, chosen, pixels, 1, to.reshading);
  for (float& depth : to.depth) depth = std::log(depth / static_cast<float>(models::kMiddleDepth));
}

Tensor<float> input_of(Tape<float>& tape, const PixelExamples& batch) {
  const Tensor<float> x = tape.make({batch.size * batch.size, batch.count, 3});
  // The middle of the range becomes 0.
  for (std::size_t n = 0; n < batch.rgb.size(); ++n) x.data[n] = 4 * (batch.rgb[n] - 0.5F);
  return x;
}

LossSums loss_of(Tape<float>& tape, PixelTask task, const Tensor<float>& x, const PixelExamples& truth,
                 const BinaryWeights& edges, float weight) {
  switch (task) {
    case PixelTask::segmentation: {
      auto* targets = tape.scratch<int>(static_cast<std::int64_t>(truth.segmentation.size()));
      std::copy(truth.segmentation.begin(), truth.segmentation.end(), targets);
      return cross_entropy(tape, x, {targets, truth.segmentation.size()}, -1, 0.0F, weight);
    }
    case PixelTask::depth: return absolute_error(tape, x, truth.depth, kNearDepth, weight);
    case PixelTask::normals: return cosine_error(tape, x, truth.normals, kNearNormal, weight);
    case PixelTask::edges: return binary_cross_entropy(tape, x, truth.edges, edges, weight);
    case PixelTask::reshading: return absolute_error(tape, x, truth.reshading, kNearShade, weight);
  }
  return {};
}

// The losses of all tasks, each brought to the common size, over every pixel; what is right is the mean over the tasks.
LossSums total_loss(Tape<float>& tape, const MultitaskNetwork& network, const std::vector<Tensor<float>>& x,
                    const PixelExamples& truth, const BinaryWeights& edges, float weight) {
  LossSums total;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const PixelTask task = network.tasks()[t];
    const double size = models::info_of(task).loss_weight;
    const LossSums one = loss_of(tape, task, x[t], truth, edges, static_cast<float>(size) * weight);
    total.loss += size * one.loss;
    total.correct += one.correct;
  }
  total.tokens = truth.count * truth.size * truth.size;
  total.correct /= static_cast<std::int64_t>(x.size());
  return total;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::int64_t largest(const float* row, std::int64_t count) { return std::max_element(row, row + count) - row; }

void add_scores(PixelScores& scores, PixelTask task, const Tensor<float>& x, const PixelExamples& truth) {
  const std::int64_t channels = x.size(2);
  const std::int64_t rows = x.size(0) * x.size(1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x.data + r * channels;
    const auto at = static_cast<std::size_t>(r);
    switch (task) {
      case PixelTask::segmentation: scores.add_class(largest(row, channels), truth.segmentation[at]); break;
      case PixelTask::depth:
        if (!std::isnan(truth.depth[at]))
          scores.add_depth(models::kMiddleDepth * std::exp(static_cast<double>(row[0])),
                           models::kMiddleDepth * std::exp(static_cast<double>(truth.depth[at])));
        break;
      case PixelTask::normals: {
        const float* normal = truth.normals.data() + 3 * r;
        if (normal[0] != 0 || normal[1] != 0 || normal[2] != 0) scores.add_normal(row, normal);
        break;
      }
      case PixelTask::edges: scores.add_edge(sigmoid(row[0]), truth.edges[at] != 0); break;
      case PixelTask::reshading: scores.add_reshading(row[0], truth.reshading[at]); break;
    }
  }
}

std::vector<float> in_units(PixelTask task, const Tensor<float>& x) {
  const std::int64_t channels = x.size(2);
  std::vector<float> result;
  for (std::int64_t r = 0; r < x.size(0) * x.size(1); ++r) {
    const float* row = x.data + r * channels;
    switch (task) {
      case PixelTask::segmentation: result.push_back(static_cast<float>(largest(row, channels))); break;
      case PixelTask::depth: result.push_back(static_cast<float>(models::kMiddleDepth) * std::exp(row[0])); break;
      case PixelTask::normals: {
        const float length = std::max(std::hypot(row[0], row[1], row[2]), 1e-12F);
        for (int n = 0; n < 3; ++n) result.push_back(row[n] / length);
        break;
      }
      case PixelTask::edges: result.push_back(static_cast<float>(sigmoid(row[0]))); break;
      case PixelTask::reshading: result.push_back(row[0]); break;
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<float>> predict(const MultitaskNetwork& network, const float* values,
                                        const PixelExamples& examples, std::int64_t n,
                                        layers::AttentionObserver<float>* observer) {
  if (n < 0 || n >= examples.count)
    throw Error("predict: expected a picture from 0 to " + std::to_string(examples.count - 1) + ", got " +
                std::to_string(n));
  PixelExamples one;
  lay_out(examples, {&n, 1}, one);
  Tape<float> tape(false);
  layers::Graph<float> graph(tape, network.parameters(), values, nullptr);
  if (observer) graph.observe(*observer);
  const std::vector<Tensor<float>> x = network(graph, input_of(tape, one));
  std::vector<std::vector<float>> result;
  for (const Tensor<float>& map : x) require_finite("prediction", {map.data, static_cast<std::size_t>(map.count())});
  for (std::size_t t = 0; t < x.size(); ++t) result.push_back(in_units(network.tasks()[t], x[t]));
  return result;
}

Scores score(const MultitaskNetwork& network, const float* values, const PixelExamples& examples,
             const BinaryWeights& edges, int threads, const std::function<bool()>& stop) {
  const std::int64_t chunks = (examples.count + kAsked - 1) / kAsked;
  std::vector<PixelScores> scores(static_cast<std::size_t>(chunks),
                                  PixelScores(network.channels(PixelTask::segmentation)));
  std::vector<double> losses(static_cast<std::size_t>(chunks));
  std::atomic<std::int64_t> done{0};
  // The memory of each thread is reused from chunk to chunk.
  std::vector<std::unique_ptr<Tape<float>>> tapes;
  for (int n = 0; n < std::max(1, threads); ++n) tapes.push_back(std::make_unique<Tape<float>>(false));
  parallel_for(chunks, threads, [&](std::int64_t c, int worker) {
    if (stop && stop()) return;
    std::vector<std::int64_t> chosen;
    for (std::int64_t n = c * kAsked; n < std::min(examples.count, (c + 1) * kAsked); ++n) chosen.push_back(n);
    PixelExamples batch;
    lay_out(examples, chosen, batch);
    Tape<float>& tape = *tapes[static_cast<std::size_t>(worker)];
    tape.reset();
    layers::Graph<float> graph(tape, network.parameters(), values, nullptr);
    const std::vector<Tensor<float>> x = network(graph, input_of(tape, batch));
    losses[static_cast<std::size_t>(c)] = total_loss(tape, network, x, batch, edges, 1.0F).loss;
    for (std::size_t t = 0; t < x.size(); ++t)
      add_scores(scores[static_cast<std::size_t>(c)], network.tasks()[t], x[t], batch);
    done += batch.count;
  });
  double loss = 0;
  for (std::size_t c = 0; c < scores.size(); ++c) {
    loss += losses[c];
    if (c > 0) scores[0].merge(scores[c]);
  }
  Scores result = scores[0].named(network.tasks());
  result.loss = loss / static_cast<double>(std::max<std::int64_t>(1, done) * examples.size * examples.size);
  return result;
}

MultitaskObjective::MultitaskObjective(const MultitaskNetwork& network, const PixelExamples& train,
                                       const PixelExamples& valid, std::int64_t batch, std::uint64_t seed)
    : network_(network), train_(train), valid_(valid), batch_(batch), seed_(seed), edges_(edge_weights(train)) {
  if (train.count < 1) throw Error("multitask: expected at least one training picture, got none");
  order_.resize(static_cast<std::size_t>(train.count));
  start_epoch(0);
}

BinaryWeights MultitaskObjective::edge_weights(const PixelExamples& examples) {
  const auto all = static_cast<double>(examples.edges.size());
  const auto ones = static_cast<double>(
      std::count_if(examples.edges.begin(), examples.edges.end(), [](std::uint8_t edge) { return edge != 0; }));
  if (ones == 0 || ones == all) return {};
  return {all / (2 * (all - ones)), all / (2 * ones)};
}

void MultitaskObjective::start_epoch(std::int64_t epoch) {
  std::iota(order_.begin(), order_.end(), 0);
  Random(seed_, 0x70696374U, epoch).shuffle(std::span<std::int64_t>(order_));
}

std::int64_t MultitaskObjective::prepare(std::int64_t n, std::int64_t part, std::int64_t parts) {
  if (static_cast<std::int64_t>(parts_.size()) < parts) parts_.resize(static_cast<std::size_t>(parts));
  std::vector<std::int64_t> chosen;
  const std::int64_t end = std::min(train_.count, (n + 1) * batch_);
  for (std::int64_t p = n * batch_ + part; p < end; p += parts) chosen.push_back(order_[static_cast<std::size_t>(p)]);
  PixelExamples& batch = parts_[static_cast<std::size_t>(part)];
  lay_out(train_, chosen, batch);
  return batch.count * batch.size * batch.size;
}

LossSums MultitaskObjective::loss(layers::Graph<float>& graph, std::int64_t part, float weight) const {
  const PixelExamples& batch = parts_[static_cast<std::size_t>(part)];
  const std::vector<Tensor<float>> x = network_(graph, input_of(graph.tape, batch));
  return total_loss(graph.tape, network_, x, batch, edges_, weight);
}

std::optional<Scores> MultitaskObjective::validate(const float* values, int threads, const Processes&) const {
  if (valid_.count == 0) return std::nullopt;
  return score(network_, values, valid_, edges_, threads);
}

}  // namespace rapt::inline v1::training
