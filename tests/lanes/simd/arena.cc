// Compiled once for each SIMD target, as the arena of the kernels is.
#include "backends/cpu/simd/rows.h"

namespace rapt::inline v1::RAPT_TARGET {

void write_at(char* block, int piece, int offset);

// Three pieces of 25 floats, and a byte that is set so far from one of them; −1: after all were given back.
void write_at(char* block, int piece, int offset) {
  volatile char* place = block + offset;
  {
    Arena arena(block);
    char* pieces[3];
    for (char*& p : pieces) p = reinterpret_cast<char*>(arena.take<float>(25));
    if (piece >= 0) {
      place = pieces[piece] + offset;
      *place = 1;
    }
  }
  if (piece < 0) *place = 1;
}

}  // namespace rapt::inline v1::RAPT_TARGET
