#include "tensor/grid.h"

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::Input;
using support::random_input;

constexpr Grid kGrid{4, 6};
constexpr Grid kSmall{2, 3};
constexpr int64_t kBatch = 3;
constexpr int64_t kWidth = 5;

Input on_grid(int64_t cells, int64_t batch, int64_t width) {
  Random random(cells, width);
  return random_input("x", {cells, batch, width}, random);
}

double at(const Input& x, int64_t cell, int64_t b, int64_t n) {
  return x.values[static_cast<std::size_t>((cell * x.shape[1] + b) * x.shape[2] + n)];
}

TEST(GridOperations, MergeAndSplit) {
  const Input x = on_grid(kGrid.cells(), kBatch, kWidth);
  std::vector<double> merged;
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t b = 0; b < kBatch; ++b)
        for (const int64_t cell :
             {2 * r * 6 + 2 * c, 2 * r * 6 + 2 * c + 1, (2 * r + 1) * 6 + 2 * c, (2 * r + 1) * 6 + 2 * c + 1})
          for (int64_t n = 0; n < kWidth; ++n) merged.push_back(at(x, cell, b, n));
  support::check_operation(
      {x}, [](auto& tape, const auto& in) { return std::vector{merge_cells(tape, in[0], kGrid, 2)}; }, {merged});
  support::check_operation({{"merged", {6, kBatch, 4 * kWidth}, merged}},
                           [](auto& tape, const auto& in) {
                             return std::vector{split_cells(tape, in[0], {2, 3}, 2)};
                           },
                           {x.values});
}

TEST(GridOperations, Windows) {
  const Input x = on_grid(kGrid.cells(), kBatch, kWidth);
  std::vector<double> windows;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 2; ++j)
      for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t r = 0; r < 2; ++r)
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t n = 0; n < kWidth; ++n) windows.push_back(at(x, (2 * r + i) * 6 + 2 * c + j, b, n));
  support::check_operation(
      {x}, [](auto& tape, const auto& in) { return std::vector{to_windows(tape, in[0], kGrid, 2)}; }, {windows});
  support::check_operation({{"windows", {4, kBatch * 6, kWidth}, windows}},
                           [](auto& tape, const auto& in) { return std::vector{from_windows(tape, in[0], kGrid, 2)}; },
                           {x.values});
}

TEST(GridOperations, BiasByDistance) {
  Random random(2);
  const Input table = random_input("table", {2, 3, 5}, random);
  std::vector<double> expected;
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t q = 0; q < 6; ++q)
      for (int64_t k = 0; k < 6; ++k)
        expected.push_back(table.values[static_cast<std::size_t>((h * 3 + k / 3 - q / 3 + 1) * 5 + k % 3 - q % 3 + 2)]);
  support::check_operation(
      {table}, [](auto& tape, const auto& in) { return std::vector{grid_bias(tape, in[0], kSmall)}; }, {expected});
}

TEST(GridOperations, BadShapesAreErrors) {
  Tape<float> tape;
  const Tensor<float> x = tape.make({24, 2, 8});
  EXPECT_THROW(merge_cells(tape, x, {4, 5}, 2), Error);
  EXPECT_THROW(merge_cells(tape, x, {4, 6}, 4), Error);
  EXPECT_THROW(merge_cells(tape, x, {4, 6}, 0), Error);
  EXPECT_THROW(split_cells(tape, x, {4, 6}, 3), Error);
  EXPECT_THROW(to_windows(tape, x, {4, 6}, 4), Error);
  EXPECT_THROW(from_windows(tape, x, {4, 6}, 2), Error);
  EXPECT_THROW(from_windows(tape, x, {4, 6}, 0), Error);
  EXPECT_THROW(grid_bias(tape, tape.make({2, 3, 4}), {2, 3}), Error);
}

}  // namespace
}  // namespace rapt::test
