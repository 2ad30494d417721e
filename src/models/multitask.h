#pragma once

#include <string>
#include <vector>

#include "layers/positions.h"
#include "layers/shared_attention.h"
#include "models/pixel_tasks.h"

namespace rapt::inline v1::models {

// none: each task's decoder attends by itself. shared: one map for all tasks at every stage, as in MulT.
enum class Sharing : std::uint8_t { none, shared };

struct MultitaskConfig {
  std::string tasks = "all";
  Sharing sharing = Sharing::shared;
  // The source of a shared map: "skip", the encoder's features of the same stage, or a task's name, those of its
  // decoder.
  std::string reference = "skip";
  std::int64_t patch = 2;   // pixels of a token's side
  std::int64_t width = 32;  // of a token in the first stage; each further one has half the side and twice the width
  std::int64_t stages = 2;
  std::int64_t blocks = 1;  // of attention and feed-forward layers in each stage of the encoder
  std::int64_t heads = 2;   // in the first stage; they grow with the width
  std::int64_t inner = 64;  // of the feed-forward layers in the first stage; it grows with the width
  std::int64_t window = 8;  // tokens attend within squares of so many, where the grid is larger; 0: to all
  double dropout = 0;
};

// A network for several tasks on one picture: a shared encoder, in stages with ever fewer tokens, and a decoder per
// task that reverses them, with a skip connection from each stage.
class MultitaskNetwork {
 public:
  // Throws rapt::Error if the settings do not fit the size of the pictures.
  MultitaskNetwork(const MultitaskConfig& config, std::int64_t size, std::int64_t classes);

  const layers::Parameters& parameters() const { return parameters_; }
  const std::vector<PixelTask>& tasks() const { return tasks_; }
  std::int64_t size() const { return size_; }
  std::int64_t channels(PixelTask task) const;
  // Multiply-adds of one picture's forward pass.
  std::int64_t multiply_adds() const { return multiply_adds_; }

  // pixels [size², batch, 3], row by row; for each task [size², batch, channels].
  template <class T>
  std::vector<Tensor<T>> operator()(layers::Graph<T>& graph, const Tensor<T>& pixels) const;

 private:
  // Attention under one map, and a feed-forward layer for each task.
  struct Block {
    Block(layers::Parameters& parameters, const std::string& name, const layers::SharedAttentionShape& shape,
          std::int64_t inner, double dropout);

    template <class T>
    std::vector<Tensor<T>> operator()(layers::Graph<T>& graph, const Tensor<T>& map_from,
                                      std::span<const Tensor<T>> tasks) const;

    layers::LayerNorm map_norm;
    layers::SharedAttention attention;
    std::vector<layers::LayerNorm> norms;
    std::vector<layers::Mlp> mlps;
  };
  struct EncoderStage {
    layers::LayerNorm norm;  // from the second on, as is merge
    layers::Linear merge;
    std::vector<Block> blocks;
  };
  struct DecoderStage {
    std::vector<layers::Linear> skip;  // one for each task
    std::vector<layers::LayerNorm> norm;
    std::vector<layers::Linear> up;
    std::vector<Block> blocks;  // one for each task, or one for all
  };
  struct Head {
    layers::LayerNorm norm;
    layers::Linear out;
  };

  Grid grid_of(std::int64_t stage) const;
  std::int64_t width_of(std::int64_t stage) const { return config_.width << stage; }
  layers::SharedAttentionShape attention_of(std::int64_t stage, std::int64_t tasks) const;
  Block make_block(const std::string& name, std::int64_t stage, std::int64_t tasks);
  layers::Linear make_linear(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t cells);
  DecoderStage make_decoder(std::int64_t stage);

  MultitaskConfig config_;
  std::int64_t size_;
  std::int64_t classes_;
  std::vector<PixelTask> tasks_;
  std::int64_t reference_ = -1;  // place of the reference task; −1: the skip connection
  std::int64_t multiply_adds_ = 0;
  layers::Parameters parameters_;
  layers::Linear embed_;
  layers::PositionalEncoding positions_;
  std::vector<EncoderStage> encoder_;
  std::vector<DecoderStage> decoder_;  // by stage of the encoder: run from the last to the first
  std::vector<Head> heads_;
};

}  // namespace rapt::inline v1::models
