#pragma once

#include <cstdint>
#include <vector>

namespace rapt::inline v1::tasks {

// Assigns every row a column of its own so that the sum of the costs [rows, cols] is least; rows ≤ cols. Returns each
// row's column. The Hungarian method with potentials, O(rows²·cols).
std::vector<std::int64_t> least_assignment(const std::vector<double>& costs, std::int64_t rows, std::int64_t cols);

}  // namespace rapt::inline v1::tasks
