#pragma once

#include "formulas/program.h"
#include "rapt/threads.h"
#include "rapt/tiles.h"

// What the interpreters read of a formula: the object that tiles carry.
namespace rapt::inline v1::formulas {

class Formula;

struct FormulaPrograms {
  Program score, score_backward;
  Program hide, hide_rest;  // visible(); and what of it is not a range of offsets
  Program pair, pair_backward;
  const Formula* formula = nullptr;
};

// The interpreter for one instruction set; which of its functions a formula needs, the formula says.
template <class T>
struct Interpreter {
  void (*score)(const ScoreTile<T>&) = nullptr;
  void (*score_backward)(const ScoreTile<T>&) = nullptr;
  void (*hide)(const ScoreTile<T>&) = nullptr;
  void (*raw)(const PairTile<T>&) = nullptr;
  void (*raw_backward)(const PairTile<T>&) = nullptr;
};

struct Interpreters {
  Interpreter<float> f32;
  Interpreter<double> f64;
};

// Those of the engine for processors; null: not in this build, or not for this processor.
const Interpreters* interpreters_for(Isa isa);

}  // namespace rapt::inline v1::formulas
