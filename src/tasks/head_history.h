#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tasks/head_places.h"

// The heads' centres of a run, epoch by epoch.
namespace rapt::inline v1::tasks {

struct HeadHistory {
  std::int64_t first_epoch = 1;  // 0: the fresh parameters, before any training
  std::vector<HeadPlaces> epochs;

  const HeadPlaces& last() const { return epochs.back(); }
};

// From metrics.jsonl of a run on images. Where centres are parameters, those before training come first. Throws
// rapt::Error if the run has none, or if the file is not one that a run writes.
HeadHistory read_head_history(const std::filesystem::path& run);

// The mean distance of a layer's centres from the query.
double mean_distance(const HeadPlaces& places, std::int64_t layer);
// The mean over a layer's heads of √(trace/2): the standard deviation along a direction.
double mean_spread(const HeadPlaces& places, std::int64_t layer);

// How near the heads of a layer come to the K×K pixels around the query, K = ⌊√heads⌋: the theorem's convolution.
struct GridFit {
  std::int64_t side = 0;       // K
  double distance = 0;         // mean distance of each pixel from its own head, under the optimal assignment
  std::int64_t pixels = 0;     // of the K² pixels, those that are nearest to some head's centre
  double random_distance = 0;  // of as many centres drawn from a normal distribution of the same mean square distance
};
GridFit fit_to_grid(const HeadPlaces& places, std::int64_t layer);

}  // namespace rapt::inline v1::tasks
