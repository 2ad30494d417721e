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

template <class T>
void raw(const PairTile<T>& tile) {
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; ++c) tile.scores[static_cast<std::ptrdiff_t>(j) * tile.stride + c] = T(0);
  Run<T> run(programs_of(tile.object).pair, nullptr, tile.scores, tile.keys, tile.columns, tile.stride);
  for (int d = 0; d < tile.dim; ++d) {
    const PairSource<T> source{tile, d};
    run.before(source);
    run.blocks(source);
  }
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
