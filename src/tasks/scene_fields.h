#pragma once

#include "tasks/fields.h"
#include "tasks/scene_run.h"

// The settings of runs on scenes; see fields.h.
namespace rapt::inline v1::tasks {

template <>
struct Names<models::Sharing> {
  static constexpr std::array list{std::pair<std::string_view, models::Sharing>{"none", models::Sharing::none},
                                   std::pair<std::string_view, models::Sharing>{"shared", models::Sharing::shared}};
};

template <class V>
void fields(V& v, models::MultitaskConfig& c) {
  v("tasks", c.tasks, "Tasks to learn: all, or some of segmentation,depth,normals,edges,reshading");
  v("sharing", c.sharing, "Attention of the tasks; none: each task has its own; shared: one map for all");
  v("reference", c.reference, "What a shared map is made from: skip (the encoder) or a task");
  v("patch", c.patch, 1, 64, "Patch size in pixels");
  v("stages", c.stages, 1, 6, "Stages of the encoder; each halves the resolution");
  v("blocks", c.blocks, 1, 64, "Blocks per stage of the encoder");
  v("window", c.window, 0, 512, "Side of an attention window, in tokens; 0: global");
  v("width", c.width, 1, 65536, "Model width");
  v("heads", c.heads, 1, 1024, "Heads of each attention");
  v("inner", c.inner, 1, 1 << 20, "Width of the feed-forward layers");
  v("dropout", c.dropout, 0, 0.95, "Dropout probability");
}

template <class V>
void fields(V& v, SceneDataConfig& d) {
  v("size", d.size, 8, 512, "Picture size in pixels");
  v("train_size", d.train, 1, 1e7, "Examples to train on");
  v("valid_size", d.valid, 1, 1e6, "Examples to validate on");
  v("test_size", d.test, 1, 1e6, "Examples to test on");
  v("samples", d.samples, 1, 8, "Rays per pixel, along each side");
  v("data_seed", d.seed, 0, 9e15, "Random seed of the scenes");
}

}  // namespace rapt::inline v1::tasks
