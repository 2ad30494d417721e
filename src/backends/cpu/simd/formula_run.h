#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/simd/error_function.h"
#include "backends/cpu/simd/lane.h"
#include "backends/cpu/tile_size.h"
#include "formulas/programs.h"

// Runs a formula's program over one tile. Everything is in the target's own namespace.
namespace rapt::inline v1::RAPT_TARGET {

using formulas::Instruction;
using formulas::Level;
using formulas::Op;
using formulas::Place;
using formulas::Program;
using formulas::ProgramOutput;
using formulas::Space;

template <class T>
inline constexpr int kWidth = Lanes<Lane<T>>::count;

// Programs are made for tiles of any instruction set.
template <class T>
constexpr bool programs_fit() {
  constexpr int kColumns = most_columns(kWidth<T>);
  static_assert(kColumns <= formulas::kMostQueries);
  static_assert(kTileKeys + kColumns + kWidth<T> <= formulas::kLineSize);
  static_assert(kTileKeys * kWidth<T> <= formulas::kSpreadSize);
  static_assert(kTileKeys <= formulas::kMostKeys);
  return true;
}
static_assert(programs_fit<float>() && programs_fit<double>());

// What the leaves of a score read.
template <class T>
struct ScoreSource {
  const ScoreTile<T>& tile;

  double scalar(const Instruction& leaf, double row, double col) const {
    switch (leaf.op) {
      case Op::scale: return static_cast<double>(tile.scale);
      case Op::head: return static_cast<double>(tile.head);
      case Op::batch: return static_cast<double>(tile.batch);
      case Op::queries: return static_cast<double>(tile.queries_total);
      case Op::keys: return static_cast<double>(tile.keys_total);
      case Op::value: return static_cast<double>(tile.values[leaf.index]);
      case Op::table: return static_cast<double>(tile.tables[leaf.index].at(static_cast<T>(row), static_cast<T>(col)));
      default: return leaf.value;
    }
  }

  // x of every key, query or offset; offsets descend.
  void line(const Instruction& leaf, T* to, int count) const {
    const Lane<T> lanes = Lanes<Lane<T>>::iota(T(0));
    const auto fill = [&](auto&& value) {
      for (int n = 0; n < count; n += kWidth<T>) Lanes<Lane<T>>::store(value(n), to + n);
    };
    const auto copy = [&](const T* from, int known) {
      for (int n = 0; n < count; ++n) to[n] = n < known ? from[n] : T(0);
    };
    switch (leaf.op) {
      case Op::query: fill([&](int n) { return Lane<T>(static_cast<T>(tile.first_query + n)) + lanes; }); break;
      case Op::key: fill([&](int n) { return Lane<T>(static_cast<T>(tile.first_key + n)) + lanes; }); break;
      case Op::offset: {
        const std::int64_t first = tile.first_key + tile.keys - 1 - tile.first_query;
        fill([&](int n) { return Lane<T>(static_cast<T>(first - n)) - lanes; });
        break;
      }
      case Op::query_row: copy(tile.query_row, tile.columns); break;
      case Op::query_col: copy(tile.query_col, tile.columns); break;
      case Op::key_row: copy(tile.key_row, tile.keys); break;
      case Op::key_col: copy(tile.key_col, tile.keys); break;
      case Op::relative: {
        const RelativeRows<T>& rows = tile.relative[leaf.index];
        copy(rows.base - (tile.keys - 1), tile.keys + tile.columns - 1);
        break;
      }
      default: break;
    }
  }

  TableRef<T> table(int index) const { return tile.tables[index]; }
};

// Of a pair: dimension d of the queries, keys and weights.
template <class T>
struct PairSource {
  const PairTile<T>& tile;
  int d;

  double scalar(const Instruction& leaf, double, double) const {
    if (leaf.op == Op::pair_w) return tile.weights ? static_cast<double>(tile.weights[d]) : 1;
    return leaf.value;
  }

  void line(const Instruction& leaf, T* to, int count) const {
    const std::ptrdiff_t query = static_cast<std::ptrdiff_t>(d) * tile.stride;
    for (int n = 0; n < count; ++n) {
      if (leaf.op == Op::pair_q) to[n] = n < tile.columns ? tile.queries[query + n] : T(0);
      else to[n] = n < tile.keys ? tile.key_rows[n * tile.key_stride + d] : T(0);
    }
  }

  TableRef<T> table(int) const { return {}; }
};

// One program over one tile (or, of pairs, over one dimension of it).
template <class T>
class Run {
 public:
  using V = Lane<T>;

  Run(const Program& program, const T* raw, T* scores, int keys, int columns, int stride)
      : program_(program), raw_(raw), scores_(scores), keys_(keys), columns_(columns), stride_(stride) {
    constexpr int kNumbers = formulas::kBlock * 4 / static_cast<int>(sizeof(T));
    const int temporaries = program.temporaries > 0 ? program.temporaries : 1;
    block_rows_ = kNumbers / (temporaries * columns);
    block_rows_ = block_rows_ < 1 ? 1 : (block_rows_ > keys ? keys : block_rows_);
    spreads_ = workspace_ + program.line_count * formulas::kLineSize;
    blocks_ = spreads_ + program.spread_count * formulas::kSpreadSize;
  }

  template <class Source>
  void before(const Source& source) {
    for (const Instruction& x : program_.scalars) {
      double& to = scalars_[x.out.index];
      if (is_leaf(x.op)) to = x.op == Op::number ? x.value : source.scalar(x, scalar(x.a), scalar(x.b));
      else to = formulas::apply(x.op, scalar(x.a), scalar(x.b), scalar(x.c));
      Lanes<V>::store(V(static_cast<T>(to)), vectors_ + x.out.index * kWidth<T>);
    }
    for (const Instruction& x : program_.lines) run_line(source, x);
    for (const Instruction& x : program_.blocks)
      if (x.op == Op::reduce)
        for (int n = 0; n < formulas::kLineSize; ++n) line(x.out)[n] = T(0);
  }

  template <class Source>
  void blocks(const Source& source) {
    for (int first = 0; first < keys_; first += block_rows_) {
      const int rows = keys_ - first < block_rows_ ? keys_ - first : block_rows_;
      for (const Instruction& x : program_.blocks) run_block(source, x, first, rows);
    }
  }

  template <class Source>
  void after(const Source& source) {
    for (const Instruction& x : program_.lines_after) run_line(source, x);
    for (const Instruction& x : program_.scalars_after) {
      double& to = scalars_[x.out.index];
      if (x.op == Op::reduce) {
        to = 0;
        for (int n = 0; n < count(x.a.level); ++n) to += static_cast<double>(line(x.a)[n]);
      } else {
        to = formulas::apply(x.op, scalar(x.a), scalar(x.b), scalar(x.c));
      }
    }
  }

  double scalar(const Place& place) const { return place.space == Space::scalar ? scalars_[place.index] : 0; }
  T* spread(const Place& place) { return spreads_ + place.index * formulas::kSpreadSize; }
  T* line(const Place& place) { return workspace_ + place.index * formulas::kLineSize; }
  int count(Level level) const {
    if (level == Level::key) return keys_;
    return level == Level::query ? columns_ : keys_ + columns_ - 1;
  }

  // Adds the gradients of a table that are not of single pairs.
  void add_to_table(const ProgramOutput& output, const TableRef<T>& table) {
    if (!table.grad) return;
    if (output.gradient.space == Space::scalar) {
      const auto at = table.find(static_cast<T>(scalar(output.row)), static_cast<T>(scalar(output.col)));
      if (at >= 0) table.grad[at] += scalar(output.gradient);
      return;
    }
    const T* gradient = line(output.gradient);
    const auto place = [&](const Place& index, int n) {
      return index.space == Space::line ? line(index)[n] : static_cast<T>(scalar(index));
    };
    for (int n = 0; n < count(output.gradient.level); ++n) {
      if (gradient[n] == T(0)) continue;
      const auto at = table.find(place(output.row, n), place(output.col, n));
      if (at >= 0) table.grad[at] += static_cast<double>(gradient[n]);
    }
  }

 private:
  // An operand's vectors: row j's at column c lies at first + j·row + c·step. A step of 0: the same for all columns.
  struct Rows {
    const T* first = nullptr;
    std::ptrdiff_t row = 0;
    int step = 1;

    RAPT_FN T at(int j, int c) const { return first ? first[j * row + static_cast<std::ptrdiff_t>(c) * step] : T(0); }
    RAPT_FN const T* column(int c) const { return first + static_cast<std::ptrdiff_t>(c) * step; }
  };

  // The operand's rows in a block that begins at row `first` of the tile.
  Rows rows_of(const Place& place, int first) {
    switch (place.space) {
      case Space::scalar: return {vectors_ + place.index * kWidth<T>, 0, 0};
      case Space::spread: return {spread(place) + first * kWidth<T>, kWidth<T>, 0};
      case Space::block:
        return {blocks_ + static_cast<std::ptrdiff_t>(place.index) * (block_rows_ * columns_ + formulas::kTemporaryGap),
                columns_, 1};
      case Space::raw: return {raw_ + static_cast<std::ptrdiff_t>(first) * stride_, stride_, 1};
      case Space::scores: return {scores_ + static_cast<std::ptrdiff_t>(first) * stride_, stride_, 1};
      case Space::line:
        if (place.level == Level::query) return {line(place), 0, 1};
        return {line(place) + (keys_ - 1 - first), -1, 1};
      default: return {};
    }
  }

  // Of a line that is computed, everything is a line of its level or one number.
  Rows line_of(const Place& place) {
    if (place.space == Space::scalar) return {vectors_ + place.index * kWidth<T>, 0, 0};
    return {place.space == Space::none ? nullptr : line(place), 0, 1};
  }

  struct Span {
    T* out = nullptr;
    std::ptrdiff_t out_row = 0;
    Rows a, b, c, d;
    int rows = 0, columns = 0;
  };

  template <class Source>
  void run_line(const Source& source, const Instruction& x) {
    const int padded = (count(x.level) + kWidth<T> - 1) / kWidth<T> * kWidth<T>;
    T* out = line(x.out);
    if (is_leaf(x.op) && x.op != Op::table) {
      source.line(x, out, padded);
      return;
    }
    const Span span{out, 0, line_of(x.a), line_of(x.b), line_of(x.c), {}, 1, padded};
    if (x.op == Op::table) read_table(span, source.table(x.index));
    else compute(x.op, span);
    // Nothing stands past the end: sums may read it.
    for (int n = count(x.level); n < padded; ++n) out[n] = T(0);
  }

  template <class Source>
  void run_block(const Source& source, const Instruction& x, int first, int rows) {
    if (x.out.space == Space::spread) {
      for (int j = first; j < first + rows; ++j) Lanes<V>::store(V(line(x.a)[j]), spread(x.out) + j * kWidth<T>);
      return;
    }
    Span span{nullptr, 0,       rows_of(x.a, first), rows_of(x.b, first), rows_of(x.c, first), rows_of(x.d, first),
              rows,    columns_};
    if (x.op == Op::reduce) {
      reduce(x, span, first);
      return;
    }
    if (x.op == Op::table && x.out.space == Space::none) {
      add_pairs_to_table(span, source.table(x.index));
      return;
    }
    const Rows out = rows_of(x.out, first);
    span.out = const_cast<T*>(out.first);
    span.out_row = out.row;
    if (x.op == Op::table) read_table(span, source.table(x.index));
    else if (x.op == Op::raw && program_.adds) {
      span.b = out;
      compute(Op::add, span);
    } else compute(x.op, span);
  }

  // Sums over the pairs of each place. Rows of offsets overlap, so they are added one after the other.
  void reduce(const Instruction& x, const Span& span, int first) {
    T* to = line(x.out);
    if (x.level == Level::key) {
      for (int j = 0; j < span.rows; ++j) {
        V sum(0);
        for (int c = 0; c < span.columns; c += kWidth<T>) sum = sum + Lanes<V>::load(span.a.column(c) + j * span.a.row);
        to[first + j] = Lanes<V>::sum(sum);
      }
      return;
    }
    for (int c = 0; c < span.columns; c += kWidth<T>) {
      const T* a = span.a.column(c);
      if (x.level == Level::query) {
        V sum = Lanes<V>::load(to + c);
        for (int j = 0; j < span.rows; ++j, a += span.a.row) sum = sum + Lanes<V>::load(a);
        Lanes<V>::store(sum, to + c);
        continue;
      }
      T* row = to + (keys_ - 1 - first) + c;
      for (int j = 0; j < span.rows; ++j, a += span.a.row, --row)
        Lanes<V>::store(Lanes<V>::load(row) + Lanes<V>::load(a), row);
    }
  }

  void read_table(const Span& span, const TableRef<T>& table) {
    for (int j = 0; j < span.rows; ++j)
      for (int c = 0; c < span.columns; ++c)
        span.out[j * span.out_row + c] = table.at(span.a.at(j, c), span.b.at(j, c));
  }

  void add_pairs_to_table(const Span& span, const TableRef<T>& table) {
    if (!table.grad) return;
    for (int j = 0; j < span.rows; ++j)
      for (int c = 0; c < span.columns; ++c) {
        const T gradient = span.a.at(j, c);
        if (gradient == T(0)) continue;
        const auto at = table.find(span.b.at(j, c), span.c.at(j, c));
        if (at >= 0) table.grad[at] += static_cast<double>(gradient);
      }
  }

  // Columns of a few vectors at a time, so that the inner loop is as long as the block has rows.
  static constexpr int kVectors = 4;

  template <class F>
  RAPT_FN void each_column(const Span& span, F&& f) {
    int c = 0;
    for (; c + kVectors * kWidth<T> <= span.columns; c += kVectors * kWidth<T>)
      f(c, std::integral_constant<int, kVectors>());
    for (; c < span.columns; c += kWidth<T>) f(c, std::integral_constant<int, 1>());
  }

  // A column's vectors of an operand, row after row. In registers, as nothing that a loop reads may lie where it writes;
  // kUniform: one vector for all.
  template <bool kUniform = false>
  struct Reader {
    const T* at;
    const std::ptrdiff_t row, next;
    const V same;

    RAPT_FN Reader(const Rows& rows, int column)
        : at(rows.column(column)),
          row(rows.row),
          next(static_cast<std::ptrdiff_t>(rows.step) * kWidth<T>),
          same(Lanes<V>::load(at)) {}
    RAPT_FN V get(int n) const {
      if constexpr (kUniform) return same;
      else return Lanes<V>::load(at + n * next);
    }
    RAPT_FN void move() {
      if constexpr (!kUniform) at += row;
    }
  };

  static RAPT_FN bool is_uniform(const Rows& rows) { return rows.step == 0 && rows.row == 0; }

  // out = f(n, vectors n of the readers), which are then moved on.
  template <int kCount, class F, class... R>
  RAPT_FN void each_row(const Span& span, int column, std::integral_constant<int, kCount>, F&& f, R... readers) {
    T* out = span.out + column;
    const std::ptrdiff_t out_row = span.out_row;
    const int rows = span.rows;
    for (int j = 0; j < rows; ++j, out += out_row) {
      for (int n = 0; n < kCount; ++n) Lanes<V>::store(f(readers.get(n)...), out + n * kWidth<T>);
      (readers.move(), ...);
    }
  }

  template <class F>
  void each(const Span& span, F&& f) {
    each_column(span, [&](int c, auto vectors) { each_row(span, c, vectors, f, Reader<>(span.a, c)); });
  }
  template <class F>
  void each_two(const Span& span, F&& f) {
    each_column(span, [&](int c, auto vectors) {
      if (is_uniform(span.b)) each_row(span, c, vectors, f, Reader<>(span.a, c), Reader<true>(span.b, c));
      else each_row(span, c, vectors, f, Reader<>(span.a, c), Reader<>(span.b, c));
    });
  }
  template <class F>
  void each_three(const Span& span, F&& f) {
    each_column(span, [&](int c, auto vectors) {
      const Reader<> a_reader(span.a, c), b_reader(span.b, c);
      if (is_uniform(span.c)) each_row(span, c, vectors, f, a_reader, b_reader, Reader<true>(span.c, c));
      else each_row(span, c, vectors, f, a_reader, b_reader, Reader<>(span.c, c));
    });
  }
  template <class F>
  void each_four(const Span& span, F&& f) {
    each_column(span, [&](int c, auto vectors) {
      const Reader<> a_reader(span.a, c), c_reader(span.c, c);
      if (is_uniform(span.b) && is_uniform(span.d))
        each_row(span, c, vectors, f, a_reader, Reader<true>(span.b, c), c_reader, Reader<true>(span.d, c));
      else each_row(span, c, vectors, f, a_reader, Reader<>(span.b, c), c_reader, Reader<>(span.d, c));
    });
  }

  static RAPT_FN V one_if(Condition<T> condition) { return where(condition, V(1), V(0)); }
  static RAPT_FN Condition<T> holds(V x) { return !(x == V(0)); }

  void compute(Op op, const Span& span) {
    switch (op) {
      case Op::raw: each(span, [](V a) { return a; }); break;
      case Op::negate: each(span, [](V a) { return -a; }); break;
      case Op::absolute: each(span, [](V a) { return abs(a); }); break;
      case Op::sign: each(span, [](V a) { return sign(a); }); break;
      case Op::floor: each(span, [](V a) { return floor(a); }); break;
      case Op::exp: each(span, [](V a) { return exp(a); }); break;
      case Op::log: each(span, [](V a) { return log(a); }); break;
      case Op::sqrt: each(span, [](V a) { return sqrt(a); }); break;
      case Op::tanh: each(span, [](V a) { return tanh(a); }); break;
      case Op::sigmoid: each(span, [](V a) { return V(1) / (V(1) + exp(-a)); }); break;
      case Op::erf: each(span, [](V a) { return erf(a); }); break;
      case Op::sin: each(span, [](V a) { return sin(a); }); break;
      case Op::cos: each(span, [](V a) { return cos(a); }); break;
      case Op::logical_not: each(span, [](V a) { return one_if(a == V(0)); }); break;
      case Op::add: each_two(span, [](V a, V b) { return a + b; }); break;
      case Op::subtract: each_two(span, [](V a, V b) { return a - b; }); break;
      case Op::multiply: each_two(span, [](V a, V b) { return a * b; }); break;
      case Op::divide: each_two(span, [](V a, V b) { return a / b; }); break;
      case Op::minimum: each_two(span, [](V a, V b) { return min(a, b); }); break;
      case Op::maximum: each_two(span, [](V a, V b) { return max(a, b); }); break;
      case Op::power: each_two(span, [](V a, V b) { return pow(a, b); }); break;
      case Op::less: each_two(span, [](V a, V b) { return one_if(a < b); }); break;
      case Op::less_equal: each_two(span, [](V a, V b) { return one_if(a <= b); }); break;
      case Op::equal: each_two(span, [](V a, V b) { return one_if(a == b); }); break;
      case Op::logical_and: each_two(span, [](V a, V b) { return a * b; }); break;
      case Op::logical_or: each_two(span, [](V a, V b) { return one_if(holds(a + b)); }); break;
      case Op::live_multiply: each_two(span, [](V a, V b) { return where(a == V(0), V(0), a * b); }); break;
      case Op::keep: each_two(span, [](V a, V b) { return where(a == V(0), V(0), b); }); break;
      case Op::where: each_three(span, [](V a, V b, V c) { return where(a == V(0), c, b); }); break;
      case Op::multiply_add: each_three(span, [](V a, V b, V c) { return mul_add(a, b, c); }); break;
      case Op::multiply_subtract: each_three(span, [](V a, V b, V c) { return mul_add(a, b, -c); }); break;
      case Op::subtract_both: each_three(span, [](V a, V b, V c) { return a - b - c; }); break;
      case Op::negated_multiply_add: each_three(span, [](V a, V b, V c) { return mul_add(-a, b, c); }); break;
      case Op::add_products: each_four(span, [](V a, V b, V c, V d) { return mul_add(a, b, c * d); }); break;
      case Op::subtract_products: each_four(span, [](V a, V b, V c, V d) { return mul_add(a, b, -(c * d)); }); break;
      case Op::scaled_squares: each_three(span, [](V a, V b, V c) { return c * mul_add(a, a, b * b); }); break;
      default: break;
    }
  }

  const Program& program_;
  const T* raw_;
  T* scores_;
  const int keys_, columns_, stride_;
  int block_rows_ = 1;
  T* spreads_ = nullptr;
  T* blocks_ = nullptr;
  double scalars_[formulas::kMostScalars];
  alignas(64) T vectors_[formulas::kMostScalars * kWidth<T>];  // the scalars, each as a vector
  alignas(64) T workspace_[formulas::kWorkspace + formulas::kBlock];
};

}  // namespace rapt::inline v1::RAPT_TARGET
