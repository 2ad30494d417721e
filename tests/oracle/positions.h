#pragma once

#include "oracle/formulas.h"
#include "oracle/problem.h"

// The positions of queries and keys, and what is visible.
namespace oracle {

// A size that divides the full one is spread over it: 1 repeats, and query heads share key heads in groups.
Int spread(Int index, Int size, Int full);

// The position of query 0 of a batch.
Int first_query(const Problem& problem, Int batch);

bool visible(const Problem& problem, Int batch, Int head, Int i, Int j);

// Rotates every row by its position; `direction` −1 goes back, which is the reverse of it too.
template <class T>
void rotate(const Rotary& rotary, Int first_position, Matrix<T>& x, int direction = 1);

}  // namespace oracle
