#pragma once

#include <cstdint>
#include <vector>

#include "explorer/exhibit.h"

namespace rapt::explorer::test {

// Weights [layers, heads, queries, keys] whose rows sum to 1; row 1 of each head sees nothing.
std::vector<float> some_weights(std::int64_t layers, std::int64_t heads, std::int64_t queries, std::int64_t keys);

// An exhibit of them, with a token for each query and key: "q0", …, "k0", …
Exhibit some_exhibit(std::int64_t layers, std::int64_t heads, std::int64_t queries, std::int64_t keys);

}  // namespace rapt::explorer::test
