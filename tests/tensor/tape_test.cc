#include "tensor/tape.h"

#include <memory>

#include <gtest/gtest.h>

#include "backends/host/poison.h"
#include "rapt/error.h"
#include "support/allocations.h"
#include "support/tensors.h"
#include "tensor/ops.h"
#include "tensor/recurrent.h"

namespace rapt::test {
namespace {

TEST(TapeMemory, PiecesAreAlignedAndApart) {
  Arena64 arena;
  std::vector<std::byte*> pieces;
  for (std::size_t n = 0; n < 3000; ++n) {
    auto* p = static_cast<std::byte*>(arena.take(n % 977));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0U);
    for (std::size_t b = 0; b < n % 977; ++b) p[b] = static_cast<std::byte>(n);
    pieces.push_back(p);
  }
  for (std::size_t n = 0; n < pieces.size(); ++n)
    for (std::size_t b = 0; b < n % 977; ++b) ASSERT_EQ(pieces[n][b], static_cast<std::byte>(n)) << n;
}

TEST(TapeMemory, GrowsNoMoreAfterTheFirstRound) {
  Arena64 arena;
  const auto round = [&] {
    for (int n = 0; n < 100; ++n) arena.take(static_cast<std::size_t>(1000 * n + 17));
    arena.take(std::size_t{3} << 20);
    arena.take(5);
  };
  round();
  const std::size_t first = arena.capacity();
  EXPECT_GE(first, 100 * 99 / 2 * 1000 + (std::size_t{3} << 20));
  arena.reset();
  for (int n = 0; n < 3; ++n) {
    const std::size_t before = support::allocations();
    round();
    arena.reset();
    EXPECT_EQ(support::allocations(), before);
    EXPECT_EQ(arena.capacity(), first);
  }
}

#if defined(RAPT_ARENA_CHECKS)
// Overruns inside an arena reach no other memory, so only this tells of them.
class TapeMemoryDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static constexpr const char* kFound = "use-after-poison";
};

TEST_F(TapeMemoryDeathTest, TouchingWhatWasNotHandedOut) {
  Arena64 arena;
  auto* first = static_cast<volatile char*>(arena.take(100));
  auto* second = static_cast<volatile char*>(arena.take(64));
  first[99] = 1;
  second[63] = 1;
  EXPECT_DEATH(first[100] = 1, kFound);
  EXPECT_DEATH(first[128] = 1, kFound);
  EXPECT_DEATH(second[-1] = 1, kFound);
  EXPECT_DEATH(second[64] = 1, kFound);
}

TEST_F(TapeMemoryDeathTest, TouchingWhatWasTakenBack) {
  Arena64 arena;
  auto* kept = static_cast<volatile char*>(arena.take(200));
  const Arena64::Mark mark = arena.mark();
  auto* gone = static_cast<volatile char*>(arena.take(200));
  auto* large = static_cast<volatile char*>(arena.take(std::size_t{1} << 20));
  gone[199] = 1;
  large[5] = 1;
  arena.rewind(mark);
  kept[199] = 1;
  EXPECT_DEATH(gone[0] = 1, kFound);
  EXPECT_DEATH(large[5] = 1, kFound);
  // The pieces are replaced by one.
  arena.reset();
  EXPECT_DEATH(kept[0] = 1, "AddressSanitizer");
}

TEST_F(TapeMemoryDeathTest, TouchingWhatWasNotKept) {
  Tape<float> tape(false);
  const Arena64::Mark mark = tape.mark();
  tape.make({50});
  Tensor<float> x = tape.make({3});
  x.data[2] = 4;
  x = tape.keep_only(mark, x);
  EXPECT_EQ(x.data[2], 4);
  volatile float* numbers = x.data;
  EXPECT_DEATH(numbers[3] = 1, kFound);
  EXPECT_DEATH(numbers[40] = 1, kFound);
}
#endif

// Whole training steps, forward and backward: only the first rounds allocate.
TEST(TapeMemory, StepsAllocateNothingInTheSteadyState) {
  Random random(1);
  Tape<float> tape;
  support::Held<float> table(support::random_input("table", {11, 24}, random));
  support::Held<float> input(support::random_input("input", {24, 4 * 32}, random));
  support::Held<float> matrix(support::random_input("matrix", {32, 4 * 32}, random));
  support::Held<float> bias(support::random_input("bias", {4 * 32}, random));
  support::Held<float> gain(support::random_input("gain", {32}, random));
  support::Held<float> output(support::random_input("output", {32, 11}, random));
  const std::vector<int> ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 3, 4};
  const std::vector<std::int64_t> lengths{4, 2, 3};
  const auto step = [&] {
    tape.reset();
    const Tensor<float> x = dropout(tape, embed(tape, table.tensor(), ids, 3), 0.2F, 5);
    const CellWeights<float> weights{input.tensor(), matrix.tensor(), bias.tensor(), {}};
    const Tensor<float> h = recurrent(tape, Cell::lstm, x, weights, {}, lengths, Direction::forward).states;
    const Tensor<float> n = layer_norm(tape, activate(tape, Activation::gelu, h), gain.tensor(), gain.tensor());
    cross_entropy(tape, linear(tape, add(tape, n, h), output.tensor()), ids, 0, 0.1F, 0.1F);
    tape.backward();
  };
  step();
  step();
  const std::size_t bytes = tape.bytes();
  const std::size_t before = support::allocations();
  for (int n = 0; n < 5; ++n) step();
  EXPECT_EQ(support::allocations(), before);
  EXPECT_EQ(tape.bytes(), bytes);
}

TEST(TapeOrder, GoesBackInReverseAndForgets) {
  Tape<float> tape;
  std::vector<int> order;
  for (int n = 0; n < 3; ++n) tape.record([&order, n] { order.push_back(n); });
  tape.backward();
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  tape.reset();
  tape.backward();
  EXPECT_EQ(order.size(), 3U);
}

TEST(TapeOrder, DestroysWhatItKeeps) {
  const auto shared = std::make_shared<int>(1);
  {
    Tape<float> tape;
    tape.record([shared] {});
    EXPECT_EQ(shared.use_count(), 2);
    tape.reset();
    EXPECT_EQ(shared.use_count(), 1);
    tape.record([shared] {});
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(TapeOrder, WithoutRecordingThereAreNoGradients) {
  Tape<float> tape(false);
  bool called = false;
  tape.record([&] { called = true; });
  tape.backward();
  EXPECT_FALSE(called);
  EXPECT_EQ(tape.make({2, 3}).grad, nullptr);
}

TEST(TapeOrder, GradientsStartAtZeroInUsedMemoryToo) {
  Tape<double> tape;
  for (int round = 0; round < 3; ++round) {
    const Tensor<double> t = tape.make({5, 7});
    for (int n = 0; n < 35; ++n) {
      ASSERT_EQ(t.grad[n], 0);
      t.data[n] = t.grad[n] = 4;
    }
    tape.reset();
  }
}

TEST(TensorViews, SliceAtAndHeads) {
  Tape<float> tape;
  const Tensor<float> t = tape.make({4, 3, 6});
  for (int n = 0; n < 72; ++n) t.data[n] = static_cast<float>(n);
  const Tensor<float> middle = t.slice(1, 1, 3).slice(-1, 2, 5);
  EXPECT_EQ(to_string(middle), "[4, 2, 3]");
  EXPECT_EQ(middle.data[0], 8);
  EXPECT_EQ(middle.grad - t.grad, 8);
  EXPECT_FALSE(middle.is_contiguous());
  EXPECT_EQ(support::numbers_of(t.at(2).slice(0, 1, 2)), (std::vector<double>{42, 43, 44, 45, 46, 47}));
  // [steps, batch, heads·dim] → [batch, heads, steps, dim]
  const Tensor<float> heads = t.split_heads(2);
  EXPECT_EQ(to_string(heads), "[3, 2, 4, 3]");
  for (int b = 0; b < 3; ++b)
    for (int h = 0; h < 2; ++h)
      for (int s = 0; s < 4; ++s)
        for (int d = 0; d < 3; ++d)
          ASSERT_EQ(heads.data[b * heads.strides[0] + h * heads.strides[1] + s * heads.strides[2] + d],
                    static_cast<float>(s * 18 + b * 6 + h * 3 + d));
  // Aligned to the right, as the engine takes them.
  const ConstView view = t.at(0).view();
  EXPECT_EQ(view.shape, (Shape{1, 1, 3, 6}));
  EXPECT_EQ(view.strides, (Shape{0, 0, 6, 1}));
}

TEST(TensorViews, RowsAtOneDistance) {
  Tape<float> tape;
  const Tensor<float> t = tape.make({4, 3, 6});
  const Matrix<float> narrow = as_matrix(t.slice(2, 1, 3));
  EXPECT_EQ(narrow.rows, 12);
  EXPECT_EQ(narrow.cols, 2);
  EXPECT_EQ(narrow.stride, 6);
  EXPECT_EQ(as_matrix(t.slice(1, 2, 3)).stride, 18);
  EXPECT_THROW(as_matrix(t.slice(1, 0, 2)), Error);
  EXPECT_EQ(as_matrix(t.slice(1, 0, 2).slice(0, 1, 2)).rows, 2);
}

TEST(TensorViews, BadShapesAreErrors) {
  Tape<float> tape;
  const Tensor<float> t = tape.make({4, 3, 6});
  EXPECT_THROW(t.reshape({5, 5}), Error);
  EXPECT_THROW(t.slice(1, 0, 2).reshape({8, 6}), Error);
  EXPECT_THROW(t.slice(1, 2, 4), Error);
  EXPECT_THROW(t.slice(1, -1, 2), Error);
  EXPECT_THROW(t.slice(1, 2, 1), Error);
  EXPECT_THROW(t.slice(3, 0, 1), Error);
  EXPECT_THROW(t.at(4), Error);
  EXPECT_THROW(t.split_heads(4), Error);
  EXPECT_THROW(t.split_heads(0), Error);
  EXPECT_THROW(t.at(0).split_heads(1), Error);
}

}  // namespace
}  // namespace rapt::test
