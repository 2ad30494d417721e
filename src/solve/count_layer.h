#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rapt/dtype.h"
#include "solve/json_node.h"

namespace rapt::solve {

// An integer with its formula, in symbols and with values substituted. Arithmetic is exact; what does not fit in 64
// bits throws rapt::Error.
class Quantity {
 public:
  Quantity(std::int64_t number);  // a plain number: 2 in 2·D_hid
  Quantity(std::string symbol, std::int64_t number);

  const std::string& symbols() const { return symbols_; }
  const std::string& numbers() const { return numbers_; }
  std::int64_t value() const { return value_; }

  friend Quantity operator+(const Quantity& a, const Quantity& b);
  friend Quantity operator-(const Quantity& a, const Quantity& b);
  friend Quantity operator*(const Quantity& a, const Quantity& b);
  friend Quantity square(const Quantity& a);

 private:
  std::string symbols_;
  std::string numbers_;
  std::int64_t value_ = 0;
  bool is_sum_ = false;  // needs parentheses inside a product
};

std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);

// Where the scores get their positions from.
enum class Encoding : std::uint8_t { absolute, relative, quadratic, factorised };

const char* name_of(Encoding encoding);

struct Layer {
  std::string name;
  std::int64_t repeat = 1;
  std::int64_t heads = 1;
  std::int64_t input_dim = 0;
  std::int64_t hidden_dim = 0;
  std::int64_t value_dim = 0;     // D_o of each head; 0: as hidden_dim
  std::int64_t output_dim = 0;    // 0: as input_dim
  std::int64_t position_dim = 0;  // D_p of relative encodings; 0: as input_dim
  std::int64_t tokens = 0;
  std::array<std::int64_t, 2> grid{};  // rows, columns; {0,0}: a sequence
  std::int64_t batch = 1;
  Encoding encoding = Encoding::absolute;
  Dtype dtype = Dtype::f32;

  bool on_grid() const { return grid[0] > 0; }
};

struct Stage {
  std::string name;
  Quantity quantity;
};

// The order of growth, and its terms with values substituted; D_x is D_in.
struct Growth {
  Encoding encoding = Encoding::absolute;
  std::string what;
  std::string order;
  Quantity terms;
};

struct LayerCount {
  Quantity parameters{0};
  std::vector<Stage> parameter_parts;
  std::vector<Stage> multiply_adds;
  std::int64_t multiply_add_total = 0;
  Quantity exponentials{0};
  std::vector<Stage> as_written;   // scores from the formula's own terms, pair by pair; none for quadratic scores
  std::vector<Stage> naive_bytes;  // with the score matrix stored
  std::vector<Stage> fused_bytes;
  std::int64_t naive_total = 0;
  std::int64_t fused_total = 0;
  std::vector<Growth> growth;  // of every encoding that the layer could have
};

// Fills in defaults. Throws rapt::Error, its message beginning with `where`, for sizes that do not fit.
void complete(Layer& layer, const std::string& where);

Layer read_layer(const JsonNode& node);
Encoding parse_encoding(const std::string& argument, const std::string& name);

LayerCount count(const Layer& layer);

}  // namespace rapt::solve
