#include "solve/count_layer.h"

#include <algorithm>

#include "rapt/error.h"
#include "solve/choice.h"

namespace rapt::solve {
namespace {

[[noreturn]] void too_large() { throw Error("count: expected a layer whose numbers fit in 64 bits, got a larger one"); }

std::string bracketed(const std::string& text, bool is_sum) { return is_sum ? "(" + text + ")" : text; }

Quantity sum_of(const std::vector<Stage>& stages) {
  Quantity result = stages.front().quantity;
  for (std::size_t n = 1; n < stages.size(); ++n) result = result + stages[n].quantity;
  return result;
}

std::int64_t total_of(const std::vector<Stage>& stages) {
  std::int64_t total = 0;
  for (const Stage& stage : stages) total = checked_add(total, stage.quantity.value());
  return total;
}

// The sizes of a layer, named as in the course assignment on attention and convolution.
struct Sizes {
  Quantity batch, heads, tokens, input, hidden, value, output, position, rows, cols, offsets, width, bytes,
      compute_bytes;

  explicit Sizes(const Layer& layer)
      : batch("B", layer.batch),
        heads("N_h", layer.heads),
        tokens("N", layer.tokens),
        input("D_in", layer.input_dim),
        hidden("D_hid", layer.hidden_dim),
        value("D_o", layer.value_dim),
        output("D_out", layer.output_dim),
        position("D_p", layer.position_dim),
        rows("rows", layer.grid[0]),
        cols("cols", layer.grid[1]),
        offsets(layer.on_grid() ? (2 * rows - 1) * (2 * cols - 1) : 2 * tokens - 1),
        width("D_x", layer.input_dim),
        bytes(static_cast<std::int64_t>(size_of(layer.dtype))),
        compute_bytes(layer.dtype == Dtype::f64 ? 8 : 4) {}
};

bool by_position_only(Encoding encoding) { return encoding == Encoding::quadratic || encoding == Encoding::factorised; }

void count_parameters(const Layer& layer, const Sizes& n, LayerCount& result) {
  std::vector<Stage>& parts = result.parameter_parts;
  if (by_position_only(layer.encoding)) parts.push_back({"W_v", n.heads * n.input * n.value});
  else parts.push_back({"W_q, W_k, W_v", n.heads * n.input * (2 * n.hidden + n.value)});
  parts.push_back({"W_out", n.heads * n.value * n.output});
  parts.push_back({"b_out", n.output});
  if (layer.encoding == Encoding::relative)
    parts.push_back({"W̃_k, u, v", n.heads * (n.position * n.hidden + 2 * n.hidden)});
  if (by_position_only(layer.encoding)) parts.push_back({"α, Δ₁, Δ₂", 3 * n.heads});
  result.parameters = sum_of(parts);
}

void count_work(const Layer& layer, const Sizes& n, LayerCount& result) {
  std::vector<Stage>& stages = result.multiply_adds;
  const Quantity pairs = n.batch * n.heads * square(n.tokens);
  result.exponentials = pairs;
  const Stage weighted{"weighted sum", pairs * n.value};
  const Stage values{"projections: v", n.batch * n.tokens * n.heads * n.input * n.value};
  const Stage all{"projections: q, k, v", n.batch * n.tokens * n.heads * n.input * (2 * n.hidden + n.value)};
  switch (layer.encoding) {
    case Encoding::absolute: stages = {all, {"scores", pairs * n.hidden}, weighted}; break;
    case Encoding::relative:
      stages = {all,
                {"projections: positions", n.heads * n.offsets * n.position * n.hidden},
                {"scores: q·k and q·r", 2 * pairs * n.hidden},
                {"scores: u·k", n.batch * n.heads * n.tokens * n.hidden},
                {"scores: v·r", n.heads * n.offsets * n.hidden},
                weighted};
      break;
    case Encoding::quadratic: stages = {values, {"scores", 3 * pairs}, weighted}; break;
    case Encoding::factorised:
      // The weights of a grid row or column serve every query there, and every batch.
      stages = {values,
                {"scores", 2 * n.heads * (square(n.rows) + square(n.cols))},
                {"weighted sum", n.batch * n.heads * n.tokens * (n.rows + n.cols) * n.value}};
      result.exponentials = n.heads * (square(n.rows) + square(n.cols));
      break;
  }
  stages.push_back({"output projection", n.batch * n.tokens * n.heads * n.value * n.output});
  result.multiply_add_total = total_of(stages);
  if (!by_position_only(layer.encoding)) {
    const Quantity term = 2 * n.input * n.hidden + n.hidden;
    result.as_written = {{"scores as written: 4 terms, each q W_q W_kᵀ kᵀ", pairs * 4 * term},
                         {"scores, projections computed once",
                          2 * n.batch * n.heads * n.tokens * n.input * n.hidden + pairs * n.hidden}};
  }
}

void count_bytes(const Layer& layer, const Sizes& n, LayerCount& result) {
  const Quantity rows = n.batch * n.heads * n.tokens;
  std::vector<Stage>& fused = result.fused_bytes;
  fused.push_back({"parameters", Quantity("P", result.parameters.value()) * n.bytes});
  fused.push_back({"input", n.batch * n.tokens * n.input * n.bytes});
  if (by_position_only(layer.encoding)) fused.push_back({"v", rows * n.value * n.bytes});
  else fused.push_back({"q, k, v", rows * (2 * n.hidden + n.value) * n.bytes});
  if (layer.encoding == Encoding::relative)
    fused.push_back({"projected positions", n.heads * n.offsets * n.hidden * n.bytes});
  fused.push_back({"heads", rows * n.value * n.bytes});
  fused.push_back({"output", n.batch * n.tokens * n.output * n.bytes});
  result.naive_bytes = fused;
  result.naive_bytes.push_back({"score matrix", n.batch * n.heads * square(n.tokens) * n.bytes});
  fused.push_back({"log-sum of each row", rows * n.compute_bytes});
  result.fused_total = total_of(fused);
  result.naive_total = total_of(result.naive_bytes);
}

void count_growth(const Layer& layer, const Sizes& n, LayerCount& result) {
  const Quantity sums = square(n.tokens) * n.width;
  const Quantity maps = n.tokens * square(n.width);
  for (const Encoding encoding : {Encoding::absolute, Encoding::relative}) {
    result.growth.push_back({encoding, "as written term by term", "O(N²D_x² + N²D_x + ND_x²)",
                             square(n.tokens) * square(n.width) + sums + maps});
    result.growth.push_back({encoding, "projections computed once", "O(N²D_x + ND_x²)", sums + maps});
  }
  const Quantity three("D_p", 3);
  result.growth.push_back({Encoding::quadratic, "D_p = 3 ≪ D_x", "O(N²D_p + N²D_x + ND_x²) = O(N²D_x + ND_x²)",
                           square(n.tokens) * three + sums + maps});
  if (layer.on_grid())
    result.growth.push_back({Encoding::factorised, "a pass along rows, one along columns",
                             "O(N(rows + cols)D_x + ND_x²)", n.tokens * (n.rows + n.cols) * n.width + maps});
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) too_large();
  return result;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) too_large();
  return result;
}

Quantity::Quantity(std::int64_t number) : symbols_(std::to_string(number)), numbers_(symbols_), value_(number) {}

Quantity::Quantity(std::string symbol, std::int64_t number)
    : symbols_(std::move(symbol)), numbers_(std::to_string(number)), value_(number) {}

Quantity operator+(const Quantity& a, const Quantity& b) {
  Quantity result(checked_add(a.value_, b.value_));
  result.symbols_ = a.symbols_ + " + " + b.symbols_;
  result.numbers_ = a.numbers_ + " + " + b.numbers_;
  result.is_sum_ = true;
  return result;
}

Quantity operator-(const Quantity& a, const Quantity& b) {
  Quantity result(checked_add(a.value_, -b.value_));
  result.symbols_ = a.symbols_ + " − " + b.symbols_;
  result.numbers_ = a.numbers_ + " − " + b.numbers_;
  result.is_sum_ = true;
  return result;
}

Quantity operator*(const Quantity& a, const Quantity& b) {
  Quantity result(checked_multiply(a.value_, b.value_));
  result.symbols_ = bracketed(a.symbols_, a.is_sum_) + "·" + bracketed(b.symbols_, b.is_sum_);
  result.numbers_ = bracketed(a.numbers_, a.is_sum_) + "·" + bracketed(b.numbers_, b.is_sum_);
  return result;
}

Quantity square(const Quantity& a) {
  Quantity result(checked_multiply(a.value_, a.value_));
  result.symbols_ = bracketed(a.symbols_, a.is_sum_) + "²";
  result.numbers_ = bracketed(a.numbers_, a.is_sum_) + "²";
  return result;
}

const char* name_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::absolute: return "absolute";
    case Encoding::relative: return "relative";
    case Encoding::quadratic: return "quadratic";
    case Encoding::factorised: return "factorised";
  }
  return "";
}

Encoding parse_encoding(const std::string& argument, const std::string& name) {
  return parse_choice<Encoding>(argument, name,
                                {{"absolute", Encoding::absolute},
                                 {"relative", Encoding::relative},
                                 {"quadratic", Encoding::quadratic},
                                 {"factorised", Encoding::factorised}});
}

void complete(Layer& layer, const std::string& where) {
  const auto fail = [&](const std::string& what) { throw Error(where + what); };
  if (layer.on_grid()) {
    const std::int64_t positions = checked_multiply(layer.grid[0], layer.grid[1]);
    if (layer.tokens != 0 && layer.tokens != positions)
      fail("tokens: expected " + std::to_string(positions) + ", the positions of the grid, got " +
           std::to_string(layer.tokens));
    layer.tokens = positions;
  }
  if (layer.tokens == 0) fail("expected tokens or a grid, got neither");
  if (layer.input_dim == 0) fail("din: expected the length of the input vectors, got none");
  if (layer.hidden_dim == 0 && !by_position_only(layer.encoding))
    fail("dhid: expected the length of each head's queries and keys, got none");
  if (layer.value_dim == 0) layer.value_dim = layer.hidden_dim;
  if (layer.value_dim == 0) fail("do: expected the length of each head's values, got none");
  if (layer.output_dim == 0) layer.output_dim = layer.input_dim;
  if (layer.position_dim == 0) layer.position_dim = layer.input_dim;
  if (layer.encoding == Encoding::factorised && !layer.on_grid())
    fail("grid: expected rows and columns for the factorised encoding, got none");
}

Layer read_layer(const JsonNode& node) {
  node.allow_only(
      {"name", "repeat", "heads", "din", "dhid", "do", "dout", "dp", "tokens", "grid", "batch", "encoding", "dtype"});
  Layer layer;
  const auto size = [&](const char* key, std::int64_t& target) {
    if (const auto value = node.find(key)) target = value->integer(1, INT64_MAX);
  };
  if (const auto name = node.find("name")) layer.name = name->text();
  size("repeat", layer.repeat);
  size("heads", layer.heads);
  size("din", layer.input_dim);
  size("dhid", layer.hidden_dim);
  size("do", layer.value_dim);
  size("dout", layer.output_dim);
  size("dp", layer.position_dim);
  size("tokens", layer.tokens);
  size("batch", layer.batch);
  if (const auto grid = node.find("grid")) {
    const std::vector<std::int64_t> sizes = grid->integers(1, INT64_MAX);
    if (sizes.size() != 2) grid->fail("expected [rows, columns], got " + grid->kind());
    layer.grid = {sizes[0], sizes[1]};
  }
  if (const auto encoding = node.find("encoding")) layer.encoding = parse_encoding(encoding->where(), encoding->text());
  if (const auto dtype = node.find("dtype")) layer.dtype = parse_dtype(dtype->where(), dtype->text());
  complete(layer, node.where() + ": ");
  return layer;
}

LayerCount count(const Layer& layer) {
  const Sizes sizes(layer);
  LayerCount result;
  count_parameters(layer, sizes, result);
  count_work(layer, sizes, result);
  count_bytes(layer, sizes, result);
  count_growth(layer, sizes, result);
  return result;
}

}  // namespace rapt::solve
