#pragma once

#include <cstdint>

namespace rapt::inline v1::models {

enum class ImageModelKind : std::uint8_t { attention, cnn };

// How attention tells pixels apart. The first four score by the offset of two pixels, the first two by nothing else.
enum class Encoding : std::uint8_t { quadratic, gaussian, learned_2d, learned_2d_positions, absolute, sinusoidal };

struct ImageSizes {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
};

struct AttentionClassifierConfig {
  Encoding encoding = Encoding::quadratic;
  std::int64_t patch = 2;  // pixels along each side that become one
  std::int64_t layers = 3;
  std::int64_t heads = 9;
  std::int64_t width = 64;
  std::int64_t inner = 128;   // of the feed-forward layers
  std::int64_t head_dim = 0;  // of queries and keys; 0: ⌈width / heads⌉
  bool full_heads = true;     // each head mixes whole pixels and has a matrix of its own, as in the theorem
  double dropout = 0;
};

struct CnnConfig {
  std::int64_t stages = 2;  // each but the first halves the sides and doubles the channels
  std::int64_t blocks = 1;  // of each stage
  std::int64_t width = 16;  // channels of the first stage
  std::int64_t groups = 4;  // of channels, for the norms
  double dropout = 0;       // before the last layer
};

struct ImageModelConfig {
  ImageModelKind kind = ImageModelKind::attention;
  AttentionClassifierConfig attention;
  CnnConfig cnn;
};

}  // namespace rapt::inline v1::models
