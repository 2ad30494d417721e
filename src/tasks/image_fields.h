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
    "images: quadratic, gaussian, learned_2d, learned_2d_positions (without content), absolute or sinusoidal");
  v("patch", c.patch, 1, 1024, "images: so many pixels along each side become one");
  v("layers", c.layers, 1, 64, "of attention");
  v("heads", c.heads, 1, 256, "heads of each attention");
  v("width", c.width, 1, 65536, "numbers of a pixel");
  v("inner", c.inner, 1, 1 << 20, "units of the feed-forward layers");
  v("head_dim", c.head_dim, 0, 65536, "images: numbers of a head's queries and keys; 0: width / heads");
  v("full_heads", c.full_heads, "images: each head has a matrix as wide as a pixel; =false: width / heads");
  v("dropout", c.dropout, 0, 0.95, "share of numbers dropped while training");
}

template <class V>
void fields(V& v, models::CnnConfig& c) {
  v("stages", c.stages, 1, 8, "cnn: each but the first halves the sides and doubles the channels");
  v("blocks", c.blocks, 1, 64, "cnn: residual blocks of each stage");
  v("width", c.width, 1, 65536, "channels of the first stage");
  v("groups", c.groups, 1, 65536, "cnn: groups of channels that are normed together");
  v("dropout", c.dropout, 0, 0.95, "share of numbers dropped while training");
}

template <class V>
void fields(V& v, Augmentation& a) {
  v("flip", a.flip, "images: left and right change places, half of the time");
  v("crop_margin", a.crop_margin, 0, 1024, "images: shifted by up to so many pixels");
}

template <class V>
void fields(V& v, ShapesOptions& o) {
  v("train_size", o.train, 1, 1e7, "examples to train on");
  v("valid_size", o.valid, 1, 1e6, "to validate on");
  v("test_size", o.test, 1, 1e6, "to test on");
  v("data_seed", o.seed, 0, 9e15, "fixes the images");
}

}  // namespace rapt::inline v1::tasks
