#include "backends/cpu/simd/formula_run.h"

namespace rapt::inline v1::RAPT_TARGET {
namespace {

const formulas::FormulaPrograms& programs_of(const void* object) {
  return *static_cast<const formulas::FormulaPrograms*>(object);
}

template <class T>
void score(const ScoreTile<T>& tile) {
  const ScoreSource<T> source{tile};
  Run<T> run(programs_of(tile.object).score, tile.scores, tile.scores, tile.keys, tile.columns, tile.stride);
  run.before(source);
  run.blocks(source);
}

template <class T>
void hide(const ScoreTile<T>& tile) {
  const formulas::FormulaPrograms& programs = programs_of(tile.object);
  const Program& program = tile.offsets_seen ? programs.hide_rest : programs.hide;
  if (program.blocks.count == 0) return;
  const ScoreSource<T> source{tile};
  Run<T> run(program, tile.scores, tile.scores, tile.keys, tile.columns, tile.stride);
  run.before(source);
  run.blocks(source);
}

template <class T>
void score_backward(const ScoreTile<T>& tile) {
  const ScoreSource<T> source{tile};
  Run<T> run(programs_of(tile.object).score_backward, tile.raw, tile.scores, tile.keys, tile.columns, tile.stride);
  run.before(source);
  run.blocks(source);
  run.after(source);
  for (const ProgramOutput& output : programs_of(tile.object).score_backward.outputs) {
    if (output.of == Op::value) tile.value_grads[output.index] += run.scalar(output.gradient);
    else if (output.of == Op::table) run.add_to_table(output, tile.tables[output.index]);
    else if (output.of == Op::relative) {
      T* to = tile.relative[output.index].grad - (tile.keys - 1);
      const T* from = run.line(output.gradient);
      for (int n = 0; n < tile.keys + tile.columns - 1; ++n) to[n] += from[n];
    }
  }
}

// Adds a tile of sums of a few dimensions to the totals, and clears it. `lost`: what rounding took from the totals.
template <class T>
void add_to_totals(const PairTile<T>& tile, T* totals, T* lost) {
  using V = Lane<T>;
  const V infinity(std::numeric_limits<T>::infinity());
  for (std::ptrdiff_t n = 0; n < static_cast<std::ptrdiff_t>(tile.keys) * tile.stride; n += kWidth<T>) {
    const V total = Lanes<V>::load(totals + n);
    const V sum = Lanes<V>::load(tile.scores + n) - Lanes<V>::load(lost + n);
    const V next = total + sum;
    Lanes<V>::store(next, totals + n);
    // Infinity stays what it is.
    Lanes<V>::store(where(abs(next) < infinity, (next - total) - sum, V(0)), lost + n);
    Lanes<V>::store(V(0), tile.scores + n);
  }
}

// One long sum of f32 would lose more digits than scores may.
template <class T>
void raw(const PairTile<T>& tile) {
  constexpr int kDims = 8;
  constexpr int kMost = formulas::kMostKeys * formulas::kMostQueries;
  alignas(64) T totals[kMost], lost[kMost];
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(tile.keys) * tile.stride;
  for (std::ptrdiff_t n = 0; n < count; ++n) tile.scores[n] = totals[n] = lost[n] = T(0);
  Run<T> run(programs_of(tile.object).pair, nullptr, tile.scores, tile.keys, tile.columns, tile.stride);
  for (int d = 0; d < tile.dim; ++d) {
    const PairSource<T> source{tile, d};
    run.before(source);
    run.blocks(source);
    if ((d + 1) % kDims == 0 && d + 1 < tile.dim) add_to_totals(tile, totals, lost);
  }
  if (tile.dim <= kDims) return;
  for (std::ptrdiff_t n = 0; n < count; n += kWidth<T>)
    Lanes<Lane<T>>::store(
        Lanes<Lane<T>>::load(totals + n) + (Lanes<Lane<T>>::load(tile.scores + n) - Lanes<Lane<T>>::load(lost + n)),
        tile.scores + n);
}

template <class T>
void raw_backward(const PairTile<T>& tile) {
  const Program& program = programs_of(tile.object).pair_backward;
  Run<T> run(program, nullptr, const_cast<T*>(tile.grad), tile.keys, tile.columns, tile.stride);
  for (int d = 0; d < tile.dim; ++d) {
    const PairSource<T> source{tile, d};
    run.before(source);
    run.blocks(source);
    run.after(source);
    for (const ProgramOutput& output : program.outputs) {
      if (output.of == Op::pair_w) {
        if (tile.grad_weights) tile.grad_weights[d] += run.scalar(output.gradient);
        continue;
      }
      const T* from = run.line(output.gradient);
      if (output.of == Op::pair_q) {
        T* to = tile.grad_queries + static_cast<std::ptrdiff_t>(d) * tile.stride;
        for (int c = 0; c < tile.columns; ++c) to[c] += from[c];
      } else {
        for (int j = 0; j < tile.keys; ++j) tile.grad_keys[j * tile.grad_key_stride + d] += from[j];
      }
    }
  }
}

template <class T>
constexpr formulas::Interpreter<T> interpreter() {
  return {&score<T>, &score_backward<T>, &hide<T>, &raw<T>, &raw_backward<T>};
}

}  // namespace

const formulas::Interpreters& formula_interpreters();

const formulas::Interpreters& formula_interpreters() {
  static constexpr formulas::Interpreters interpreters{interpreter<float>(), interpreter<double>()};
  return interpreters;
}

}  // namespace rapt::inline v1::RAPT_TARGET
