#pragma once

#include "tasks/fields.h"
#include "tasks/scene_run.h"

// The settings of runs on scenes, as fields.h lists those of all others.
namespace rapt::inline v1::tasks {

template <>
struct Names<models::Sharing> {
  static constexpr std::array list{std::pair<std::string_view, models::Sharing>{"none", models::Sharing::none},
                                   std::pair<std::string_view, models::Sharing>{"shared", models::Sharing::shared}};
};

template <class V>
void fields(V& v, models::MultitaskConfig& c) {
  v("tasks", c.tasks, "all, or some of segmentation,depth,normals,edges,reshading");
  v("sharing", c.sharing, "none: each task has its own attention; shared: one map for all");
  v("reference", c.reference, "what a shared map is made from: skip (the encoder) or a task");
  v("patch", c.patch, 1, 64, "pixels of a token's side");
  v("stages", c.stages, 1, 6, "of the encoder; each has half the side of the one before");
  v("blocks", c.blocks, 1, 64, "of each stage of the encoder");
  v("window", c.window, 0, 512, "scenes: tokens attend within squares of so many; 0: to all");
  v("width", c.width, 1, 65536, "numbers of a token");
  v("heads", c.heads, 1, 1024, "heads of each attention");
  v("inner", c.inner, 1, 1 << 20, "units of the feed-forward layers");
  v("dropout", c.dropout, 0, 0.95, "share of numbers dropped while training");
}

template <class V>
void fields(V& v, SceneDataConfig& d) {
  v("size", d.size, 8, 512, "pixels of a picture's side");
  v("train_size", d.train, 1, 1e7, "examples to train on");
  v("valid_size", d.valid, 1, 1e6, "to validate on");
  v("test_size", d.test, 1, 1e6, "to test on");
  v("samples", d.samples, 1, 8, "rays along a pixel's side, for its colour");
  v("data_seed", d.seed, 0, 9e15, "fixes the scenes");
}

}  // namespace rapt::inline v1::tasks
