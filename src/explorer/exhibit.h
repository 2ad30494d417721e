#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "explorer/weights.h"

namespace rapt::explorer {

// Layers of one kind are shown together: a group has one list of query tokens and one of keys.
enum class Group : std::uint8_t { attention, encoder, decoder, cross };

struct Layer {
  std::string name;       // "encoder.0.self"
  std::string mechanism;  // empty: unknown
  Group group = Group::attention;
  std::size_t query_tokens = 0;  // of Exhibit::tokens
  std::size_t key_tokens = 0;
  std::array<std::int64_t, 2> grid{};  // rows and columns, if queries and keys are places of an image; else {0, 0}
  std::shared_ptr<const Weights> weights;
};

// One step of decoding: the token it produced, and its alternatives.
struct Choice {
  std::string token;
  double probability = 0;
};
struct Step {
  Choice chosen;
  std::vector<Choice> others;  // the most probable tokens; the chosen one may be among them
};

// Grey or colour, elements from 0 to 1, row by row.
struct Picture {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t channels = 0;  // 1 or 3
  std::vector<float> pixels;
};

// Where the heads of every layer looked after an epoch, as (row, column) from the query.
struct Epoch {
  std::int64_t number = 0;
  std::vector<std::vector<std::array<double, 2>>> centers;                     // [layer][head]
  std::vector<std::vector<std::array<std::array<double, 2>, 2>>> covariances;  // the same, or none
};

// The input of a model.
enum class Input : std::uint8_t { text, image };

// Everything that one page shows.
struct Exhibit {
  std::string title;
  Input input = Input::text;
  std::string text;  // the input, and the answer
  std::string target;
  std::string note;                   // one more line under the title
  std::vector<std::string> warnings;  // e.g. symbols read as unknown
  std::vector<std::vector<std::string>> tokens;
  std::vector<Layer> layers;
  std::vector<Step> steps;  // row t of the groups decoder and cross belongs to steps[t]
  Picture picture;
  std::vector<Epoch> epochs;

  // Of all layers and heads.
  std::int64_t cells() const;
};

}  // namespace rapt::explorer
