#pragma once

#include "models/image_config.h"
#include "tasks/fields.h"
#include "tasks/images.h"
#include "tasks/shapes.h"

// The settings of runs on images; see fields.h.
namespace rapt::inline v1::tasks {

template <>
struct Names<models::ImageModelKind> {
  static constexpr std::array list{
      std::pair<std::string_view, models::ImageModelKind>{"attention", models::ImageModelKind::attention},
      std::pair<std::string_view, models::ImageModelKind>{"cnn", models::ImageModelKind::cnn}};
};
template <>
struct Names<models::Encoding> {
  using E = models::Encoding;
  static constexpr std::array list{std::pair<std::string_view, E>{"quadratic", E::quadratic},
                                   std::pair<std::string_view, E>{"gaussian", E::gaussian},
                                   std::pair<std::string_view, E>{"learned_2d", E::learned_2d},
                                   std::pair<std::string_view, E>{"learned_2d_positions", E::learned_2d_positions},
                                   std::pair<std::string_view, E>{"absolute", E::absolute},
                                   std::pair<std::string_view, E>{"sinusoidal", E::sinusoidal}};
};

template <class V>
void fields(V& v, models::AttentionClassifierConfig& c) {
  v("encoding", c.encoding,
    "Images: quadratic, gaussian, learned_2d, learned_2d_positions (without content), absolute or sinusoidal");
  v("patch", c.patch, 1, 1024, "Images: patch size in pixels");
  v("layers", c.layers, 1, 64, "Attention layers");
  v("heads", c.heads, 1, 256, "Heads of each attention");
  v("width", c.width, 1, 65536, "Model width");
  v("inner", c.inner, 1, 1 << 20, "Width of the feed-forward layers");
  v("head_dim", c.head_dim, 0, 65536, "Images: head_dim; 0: width / heads");
  v("full_heads", c.full_heads, "Images: heads of full width; =false: width / heads");
  v("dropout", c.dropout, 0, 0.95, "Dropout probability");
}

template <class V>
void fields(V& v, models::CnnConfig& c) {
  v("stages", c.stages, 1, 8, "CNN: stages; each but the first halves the resolution and doubles the channels");
  v("blocks", c.blocks, 1, 64, "CNN: residual blocks per stage");
  v("width", c.width, 1, 65536, "Channels of the first stage");
  v("groups", c.groups, 1, 65536, "CNN: groups of the group norm");
  v("dropout", c.dropout, 0, 0.95, "Dropout probability");
}

template <class V>
void fields(V& v, Augmentation& a) {
  v("flip", a.flip, "Random horizontal flips; =false: none");
  v("crop_margin", a.crop_margin, 0, 1024, "Largest random shift, in pixels");
}

template <class V>
void fields(V& v, ShapesOptions& o) {
  v("train_size", o.train, 1, 1e7, "Examples to train on");
  v("valid_size", o.valid, 1, 1e6, "Examples to validate on");
  v("test_size", o.test, 1, 1e6, "Examples to test on");
  v("data_seed", o.seed, 0, 9e15, "Random seed of the images");
}

}  // namespace rapt::inline v1::tasks
