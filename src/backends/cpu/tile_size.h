#pragma once

#include <cstdint>

namespace rapt::inline v1 {

// Keys of a tile. Tiles begin at multiples of it, so that a row's tiles do not depend on other rows.
inline constexpr int kTileKeys = 64;

// Queries of a tile: four vectors of `lanes` numbers, so that a key read once serves them all.
constexpr int most_columns(int lanes) { return 4 * lanes < 16 ? 16 : 4 * lanes; }

// Softmax over more keys than this is computed in parts of this length, merged in order. The parts follow from the keys
// alone, so that a row has the same bits whichever thread computes them.
inline constexpr std::int64_t kKeyPart = 16 * kTileKeys;

// The most queries and keys of a short head: what one tile holds.
inline constexpr std::int64_t kShort = kTileKeys;

}  // namespace rapt::inline v1
