#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/pixel_tasks.h"
#include "training/objective.h"

namespace rapt::inline v1::training {

// Adds up how well predictions of pixels match. Sky has neither depth nor normal and does not count for these two.
class PixelScores {
 public:
  explicit PixelScores(std::int64_t classes)
      : classes_(classes), confusion_(static_cast<std::size_t>(classes * classes)) {}

  void add_class(std::int64_t predicted, std::int64_t truth) {
    ++confusion_[static_cast<std::size_t>(truth * classes_ + predicted)];
  }
  void add_depth(double predicted, double truth);
  // Vectors of any length but zero.
  void add_normal(const float* predicted, const float* truth);
  void add_edge(double probability, bool truth);
  void add_reshading(double predicted, double truth);

  void merge(const PixelScores& other);

  // The mean over the classes that occur, of both, or in either, of the share that agrees.
  double mean_iou() const;
  double depth_rmse() const;
  double mean_angle() const;  // in degrees
  // The best F1 over all thresholds of the probability, one threshold for all pictures.
  double edge_f1() const;
  double reshading_error() const;  // mean absolute error

  // One score per task, and as the goal the mean of their goodness: mIoU, 1/(1 + RMSE), 1 − angle/90°, F1, 1 − L1.
  Scores named(std::span<const models::PixelTask> tasks) const;

 private:
  static constexpr std::size_t kThresholds = 256;
  struct Sum {
    double sum = 0;
    std::int64_t count = 0;
    double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
    void merge(const Sum& other) { sum += other.sum, count += other.count; }
  };

  std::int64_t classes_;
  std::vector<std::int64_t> confusion_;  // [truth, predicted]
  Sum depth_, angle_, reshading_;
  std::array<std::int64_t, kThresholds> edges_{}, others_{};  // by probability
};

}  // namespace rapt::inline v1::training
