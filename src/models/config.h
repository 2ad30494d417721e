#pragma once

#include <cstdint>
#include <string>

#include "layers/positions.h"
#include "layers/score.h"
#include "tensor/recurrent.h"

namespace rapt::inline v1::models {

enum class Kind : std::uint8_t { seq2seq, transformer };

// How a decoder without attention gets the source: as its first state, or as a part of every input.
enum class Conditioning : std::uint8_t { first_step, every_step };

struct Sizes {
  std::int64_t source_symbols = 0;
  std::int64_t target_symbols = 0;
  std::int64_t max_length = 0;  // of either side, kEnd included: what tables of positions hold
  std::int64_t max_target = 0;  // the longest target seen in training
};

struct Seq2seqConfig {
  Cell cell = Cell::lstm;
  std::int64_t embedding = 64;
  std::int64_t hidden = 64;
  int layers = 1;
  bool bidirectional = false;
  std::string attention = "dot";      // a mechanism, "argmax", or "none"
  layers::FormulaTexts formula;       // in its place
  std::string normalize = "softmax";  // a normaliser
  Conditioning conditioning = Conditioning::first_step;
  bool input_feeding = false;
  double dropout = 0;
};

struct TransformerConfig {
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t inner = 512;  // of the feed-forward layers
  int layers = 2;
  bool pre_norm = true;
  bool tied = true;                      // the decoder's embedding is its output layer
  std::string attention = "scaled_dot";  // of self-attention; the source is attended to by content
  layers::FormulaTexts formula;          // in its place
  std::string cross_attention = "scaled_dot";
  layers::FormulaTexts cross_formula;  // in its place
  std::string normalize = "softmax";   // of both
  layers::Positions positions = layers::Positions::sinusoidal;
  bool concatenate_positions = false;
  double dropout = 0.1;
};

struct ModelConfig {
  Kind kind = Kind::seq2seq;
  Seq2seqConfig seq2seq;
  TransformerConfig transformer;
};

}  // namespace rapt::inline v1::models
