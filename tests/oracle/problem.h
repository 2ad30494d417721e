#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// The oracle's input: plain arrays of double and explicit sizes. Nothing here comes from the library.
namespace oracle {

using Int = std::int64_t;
using Sizes = std::array<Int, 4>;

// A contiguous array of up to four dimensions.
struct Array {
  Sizes shape{};
  std::vector<double> data;

  Array() = default;
  explicit Array(const Sizes& sizes) : shape(sizes), data(static_cast<std::size_t>(count(sizes)), 0.0) {}
  Array(const Sizes& sizes, std::vector<double> values) : shape(sizes), data(std::move(values)) {}

  static Int count(const Sizes& s) { return s[0] * s[1] * s[2] * s[3]; }
  bool empty() const { return data.empty(); }
  Int size() const { return static_cast<Int>(data.size()); }

  Int place(Int a, Int b, Int c, Int d) const { return ((a * shape[1] + b) * shape[2] + c) * shape[3] + d; }
  double& at(Int a, Int b, Int c, Int d) { return data[static_cast<std::size_t>(place(a, b, c, d))]; }
  double at(Int a, Int b, Int c, Int d) const { return data[static_cast<std::size_t>(place(a, b, c, d))]; }
};

enum class Causal { none, top_left, bottom_right };
enum class Normalizer { softmax, argmax, sparsemax, entmax15, sigmoid };

struct Window {
  Int left = -1;
  Int right = -1;
};

struct Mask {
  Causal causal = Causal::none;
  std::optional<Window> window;
  std::vector<Int> key_lengths;
  std::vector<Int> query_starts;
  std::vector<Int> key_starts;
  Array dense;  // [B|1, H|1, Sq|1, Sk], nonzero = attend
};

// Rotary embedding of the first `dims` numbers of q and k: pairs (n, n + dims/2), or (2n, 2n + 1) where interleaved.
struct Rotary {
  Int dims = 0;
  double base = 10000;
  bool interleaved = false;
};

struct Problem {
  std::string mechanism;
  Array q;               // [B|1, H|1, Sq, Dq]
  Array k;               // [B|1, Hk, Sk, Dk]
  std::vector<Array> v;  // [B|1, Hk, Sk, Dv] each

  // Every parameter is [1, 1|H, rows, cols]: a number per head is [1, H, 1, 1], a vector [1, H, 1, n].
  std::map<std::string, Array> parameters;
  std::map<std::string, double> settings;
  std::array<Int, 2> grid{};

  std::optional<double> scale;
  double softcap = 0;
  Array bias;  // [B|1, H|1, Sq|1, Sk]
  Mask mask;
  Normalizer normalizer = Normalizer::softmax;
  std::map<std::string, Array> normalizer_parameters;  // [1, 1|H, 1, 1]: "sink" of softmax, "b" of sigmoid

  std::vector<Int> first_query;  // the position of query 0: none, one number, or one for each batch
  Int first_key = 0;             // the position of key 0
  Rotary rotary;

  Int batch() const;
  Int heads() const;
  Int queries() const { return q.shape[2]; }
  Int keys() const { return k.shape[2]; }
};

}  // namespace oracle
