#include "training/pixel_scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rapt::inline v1::training {

void PixelScores::add_depth(double predicted, double truth) {
  depth_.sum += (predicted - truth) * (predicted - truth);
  ++depth_.count;
}

void PixelScores::add_normal(const float* a, const float* b) {
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  for (int n = 0; n < 3; ++n) {
    product += static_cast<double>(a[n]) * b[n];
    square_a += static_cast<double>(a[n]) * a[n];
    square_b += static_cast<double>(b[n]) * b[n];
  }
  const double cosine = product / std::max(std::sqrt(square_a * square_b), 1e-30);
  angle_.sum += std::acos(std::clamp(cosine, -1.0, 1.0)) * 180 / std::numbers::pi;
  ++angle_.count;
}

void PixelScores::add_edge(double probability, bool truth) {
  const double place = std::clamp(probability, 0.0, 1.0) * static_cast<double>(kThresholds - 1);
  ++(truth ? edges_ : others_)[static_cast<std::size_t>(place)];
}

void PixelScores::add_reshading(double predicted, double truth) {
  reshading_.sum += std::abs(predicted - truth);
  ++reshading_.count;
}

void PixelScores::merge(const PixelScores& other) {
  for (std::size_t n = 0; n < confusion_.size(); ++n) confusion_[n] += other.confusion_[n];
  depth_.merge(other.depth_);
  angle_.merge(other.angle_);
  reshading_.merge(other.reshading_);
  for (std::size_t n = 0; n < kThresholds; ++n) {
    edges_[n] += other.edges_[n];
    others_[n] += other.others_[n];
  }
}

double PixelScores::mean_iou() const {
  double sum = 0;
  std::int64_t found = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const std::int64_t both = confusion_[static_cast<std::size_t>(c * classes_ + c)];
    std::int64_t either = -both;
    for (std::int64_t n = 0; n < classes_; ++n)
      either += confusion_[static_cast<std::size_t>(c * classes_ + n)] +
                confusion_[static_cast<std::size_t>(n * classes_ + c)];
    if (either == 0) continue;
    sum += static_cast<double>(both) / static_cast<double>(either);
    ++found;
  }
  return found > 0 ? sum / static_cast<double>(found) : 0;
}

double PixelScores::depth_rmse() const { return std::sqrt(depth_.mean()); }
double PixelScores::mean_angle() const { return angle_.mean(); }
double PixelScores::reshading_error() const { return reshading_.mean(); }

double PixelScores::edge_f1() const {
  std::int64_t all = 0;
  for (const std::int64_t n : edges_) all += n;
  double best = 0;
  std::int64_t hits = 0;
  std::int64_t called = 0;
  for (std::size_t n = kThresholds; n-- > 0;) {
    hits += edges_[n];
    called += edges_[n] + others_[n];
    if (all + called > 0) best = std::max(best, 2 * static_cast<double>(hits) / static_cast<double>(all + called));
  }
  return best;
}

Scores PixelScores::named(std::span<const models::PixelTask> tasks) const {
  using models::PixelTask;
  Scores scores;
  double sum = 0;
  const auto put = [&](const char* name, double value, Score::Form form, double goodness) {
    scores.list.push_back({name, value, form});
    sum += goodness;
  };
  for (const PixelTask task : tasks) switch (task) {
      case PixelTask::segmentation: put("segmentation_miou", mean_iou(), Score::Form::fraction, mean_iou()); break;
      case PixelTask::depth: put("depth_rmse", depth_rmse(), Score::Form::number, 1 / (1 + depth_rmse())); break;
      case PixelTask::normals: put("normals_angle", mean_angle(), Score::Form::number, 1 - mean_angle() / 90); break;
      case PixelTask::edges: put("edges_f1", edge_f1(), Score::Form::fraction, edge_f1()); break;
      case PixelTask::reshading:
        put("reshading_l1", reshading_error(), Score::Form::number, 1 - reshading_error());
        break;
    }
  scores.goal = sum / static_cast<double>(std::max<std::size_t>(1, tasks.size()));
  return scores;
}

}  // namespace rapt::inline v1::training
