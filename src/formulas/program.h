#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formulas/derive.h"
#include "formulas/graph.h"
#include "rapt/numbers.h"

// A formula as lists of operations over tiles, for an interpreter. What is the same for a head, a key, a query or an offset
// is computed once for it; the rest goes over blocks of a tile's rows that stay in the L1 cache.
namespace rapt::inline v1::formulas {

// Where an operand lies.
enum class Space : std::uint8_t {
  none,
  scalar,  // one number
  line,    // one number for each key, query or offset of the tile: by the instruction's or the line's level
  spread,  // a line of keys, each number as a vector
  block,   // one for each pair of the block of rows
  raw,     // the tile's raw scores
  scores,  // the tile's scores, or their gradients
};

struct Place {
  Space space = Space::none;
  Level level = Level::uniform;  // of a line
  std::int16_t index = 0;
};

struct Instruction {
  Op op = Op::number;
  Level level = Level::uniform;  // of a line that is computed; of a reduction's result
  Place out{}, a{}, b{}, c{}, d{};
  std::int16_t index = 0;  // slot or table of a leaf
  double value = 0;
};

// What a derivative is added to.
struct ProgramOutput {
  Op of = Op::raw;
  std::int16_t index = 0;  // slot or table
  Place gradient{};
  Place row{}, col{};  // of a table
};

// The largest tiles that programs run over; engines assert that theirs are within.
inline constexpr int kMostKeys = 64, kMostQueries = 64;
inline constexpr int kLineSize = kMostKeys + kMostQueries + 16;  // offsets of a tile, and a vector
// Between temporaries: at distances of 4096 bytes loads would wait for stores that have nothing to do with them.
inline constexpr int kTemporaryGap = 48;
inline constexpr int kMostScalars = 2048;
inline constexpr int kSpreadSize = kMostKeys * 16;  // vectors of at most 16 numbers
inline constexpr int kWorkspace = 24576;            // numbers that a program may keep of a tile
inline constexpr int kBlock = 4096;                 // and those of its blocks

// A list in memory that something else owns. The interpreter is compiled for several instruction sets, so nothing here may be a
// function that others link too.
template <class X>
struct List {
  const X* first = nullptr;
  std::size_t count = 0;

  RAPT_FN const X* begin() const { return first; }
  RAPT_FN const X* end() const { return first + count; }
};

// In this order.
struct Program {
  List<Instruction> scalars;        // once a tile, in double
  List<Instruction> lines;          // once a key, query or offset
  List<Instruction> blocks;         // every pair
  List<Instruction> lines_after;    // from sums over pairs
  List<Instruction> scalars_after;  // from sums over pairs and lines, in double
  List<ProgramOutput> outputs;
  int line_count = 0, spread_count = 0, temporaries = 0;
  bool adds = false;  // the last block instruction adds to the scores
};

// A program with the memory of its lists.
class CompiledProgram {
 public:
  CompiledProgram() = default;
  CompiledProgram(CompiledProgram&&) = default;
  CompiledProgram& operator=(CompiledProgram&&) = default;
  // result: what takes the place of the tile's scores; kNone: nothing. Throws where the formula needs too much.
  CompiledProgram(const Graph& graph, NodeId result, std::span<const Derivative> derivatives, bool adds);

  const Program& program() const { return program_; }

 private:
  friend class Compiler;
  std::vector<Instruction> scalars_, lines_, blocks_, lines_after_, scalars_after_;
  std::vector<ProgramOutput> outputs_;
  Program program_;
};

}  // namespace rapt::inline v1::formulas
