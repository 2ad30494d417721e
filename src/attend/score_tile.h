#pragma once

#include "attend/problem.h"
#include "rapt/tiles.h"

namespace rapt::inline v1 {

// What all tiles of scores of one batch and head have in common.
template <class T>
ScoreTile<T> score_tile_of(const Problem& problem, std::int64_t b, std::int64_t h) {
  ScoreTile<T> tile;
  tile.object = problem.object;
  tile.batch = problem.outer.first_batch + b;
  tile.head = problem.outer.first_head + h;
  tile.queries_total = problem.outer.queries;
  tile.keys_total = problem.outer.keys;
  tile.scale = static_cast<T>(problem.scale);
  tile.settings = problem.settings;
  tile.offsets_seen = problem.offsets_seen;
  if (problem.grid[1] > 0) tile.grid_cols = problem.grid[1];
  for (const ParameterValue& value : problem.parameters)
    if (value.table >= 0 && value.given)
      tile.tables[value.table] = {.data = value.head<T>(h), .grad = nullptr, .rows = value.rows, .cols = value.cols};
  return tile;
}

}  // namespace rapt::inline v1
