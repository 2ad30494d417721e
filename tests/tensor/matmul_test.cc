#include "tensor/matmul.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::IsaScope;

template <class T>
constexpr double kUnit = std::numeric_limits<T>::epsilon();

// A matrix in memory, its rows `stride` apart, or its columns where it lies transposed.
template <class T>
struct Stored {
  int64_t rows, cols, stride;
  bool transposed;
  std::vector<T> data;

  Stored(int64_t r, int64_t c, bool t, int64_t gap, Random& random)
      : rows(r), cols(c), stride((t ? r : c) + gap), transposed(t) {
    data.resize(static_cast<std::size_t>((t ? c : r) * stride));
    for (T& x : data) x = static_cast<T>(random.normal());
  }
  Factor<T> factor() const {
    return transposed ? Factor<T>{data.data(), rows, cols, 1, stride} : Factor<T>{data.data(), rows, cols, stride, 1};
  }
  double at(int64_t r, int64_t c) const {
    return static_cast<double>(data[static_cast<std::size_t>(transposed ? c * stride + r : r * stride + c)]);
  }
};

template <class T>
class Matmul : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Matmul, Types);

// C against the plain sums; the numbers between its rows stay as they were.
template <class T>
void check_product(int64_t m, int64_t n, int64_t k, bool a_turned, bool b_turned, bool accumulate, Random& random) {
  const Stored<T> a(m, k, a_turned, 3, random);
  const Stored<T> b(k, n, b_turned, 2, random);
  const int64_t stride = n + 5;
  std::vector<T> c(static_cast<std::size_t>(m * stride));
  for (T& x : c) x = static_cast<T>(random.normal());
  std::vector<double> expected(c.begin(), c.end());
  std::vector<double> size(c.size());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto place = static_cast<std::size_t>(i * stride + j);
      double sum = accumulate ? expected[place] : 0;
      double absolute = std::abs(sum);
      for (int64_t p = 0; p < k; ++p) {
        sum += a.at(i, p) * b.at(p, j);
        absolute += std::abs(a.at(i, p) * b.at(p, j));
      }
      expected[place] = sum;
      size[place] = absolute;
    }
  std::vector<T> packed_c = c;
  multiply(a.factor(), b.factor(), c.data(), stride, accumulate);
  for (std::size_t p = 0; p < c.size(); ++p)
    ASSERT_NEAR(static_cast<double>(c[p]), expected[p], kUnit<T> * (2 + static_cast<double>(k)) * size[p])
        << m << "x" << k << "x" << n << " at " << p << (a_turned ? " Aᵀ" : "") << (b_turned ? " Bᵀ" : "");
  std::vector<T> memory(static_cast<std::size_t>(Packed<T>::size(b.factor())) + 1);
  const Packed<T> packed(b.factor(), memory.data());
  packed.multiply(a.factor(), packed_c.data(), stride, accumulate);
  ASSERT_EQ(std::memcmp(c.data(), packed_c.data(), c.size() * sizeof(T)), 0) << m << "x" << k << "x" << n;
}

TYPED_TEST(Matmul, EqualsPlainSumsOnEveryTarget) {
  const IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    SCOPED_TRACE(name_of(isa));
    Random random(1, static_cast<int>(isa));
    // Every pair of odd sizes for the two sides of C, with a depth and a layout that change from pair to pair.
    const std::vector<int64_t> sizes{1, 3, 7, 8, 9, 17, 33, 63, 65, 257, 300, 513};
    const std::vector<int64_t> depths{0, 1, 7, 17, 64, 257, 3, 513};
    std::size_t next = 0;
    for (const int64_t m : sizes)
      for (const int64_t n : sizes) {
        const int64_t k = depths[next % depths.size()];
        const std::size_t layout = next++ % 7;
        check_product<TypeParam>(m, n, m * n > 50000 ? std::min<int64_t>(k, 65) : k, (layout & 1) != 0,
                                 (layout & 2) != 0, (layout & 4) != 0, random);
        if (testing::Test::HasFatalFailure()) return;
      }
    // Every layout for a few depths, with edges on all sides.
    for (int layout = 0; layout < 8; ++layout)
      for (const auto& [m, n, k] : {std::tuple{9, 65, 300}, {70, 33, 257}, {3, 7, 0}, {5, 5, 1}, {1, 300, 513}}) {
        check_product<TypeParam>(m, n, k, (layout & 1) != 0, (layout & 2) != 0, (layout & 4) != 0, random);
        if (testing::Test::HasFatalFailure()) return;
      }
  }
}

// The bits of a row depend on no other row: batches of any composition, and decoding step by step, rest on it.
TYPED_TEST(Matmul, RowsHaveTheSameBitsAloneAndInBlocks) {
  const IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    Random random(2, static_cast<int>(isa));
    for (const auto& [n, k, turned] : {std::tuple{33, 65, false}, {257, 300, false}, {17, 513, true}, {1, 9, false}}) {
      const int64_t rows = 150;
      const Stored<TypeParam> a(rows, k, false, 0, random);
      const Stored<TypeParam> b(k, n, turned, 0, random);
      for (const bool accumulate : {false, true}) {
        const std::vector<TypeParam> start(static_cast<std::size_t>(rows * n), TypeParam(0.1));
        std::vector<TypeParam> whole = start;
        multiply(a.factor(), b.factor(), whole.data(), n, accumulate);
        for (const int64_t block : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 64, 65, 100}) {
          std::vector<TypeParam> parts = start;
          for (int64_t first = 0; first < rows; first += block) {
            Factor<TypeParam> some = a.factor();
            some.data += first * some.row_stride;
            some.rows = std::min(block, rows - first);
            multiply(some, b.factor(), parts.data() + first * n, n, accumulate);
          }
          ASSERT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(TypeParam)), 0)
              << name_of(isa) << ": blocks of " << block << ", n " << n << ", k " << k;
        }
      }
    }
  }
}

TYPED_TEST(Matmul, NaNStaysInItsRowAndColumn) {
  const IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    Random random(3);
    Stored<TypeParam> a(11, 9, false, 0, random);
    Stored<TypeParam> b(9, 37, false, 0, random);
    a.data[4 * 9 + 2] = std::numeric_limits<TypeParam>::quiet_NaN();
    b.data[1 * 37 + 36] = std::numeric_limits<TypeParam>::quiet_NaN();
    std::vector<TypeParam> c(11 * 37);
    multiply(a.factor(), b.factor(), c.data(), 37, false);
    for (int i = 0; i < 11; ++i)
      for (int j = 0; j < 37; ++j)
        ASSERT_EQ(std::isnan(c[static_cast<std::size_t>(i * 37 + j)]), i == 4 || j == 36) << i << ", " << j;
  }
}

TYPED_TEST(Matmul, DepthsThatDifferAreAnError) {
  Random random(4);
  const Stored<TypeParam> a(2, 3, false, 0, random);
  const Stored<TypeParam> b(4, 2, false, 0, random);
  std::vector<TypeParam> c(4);
  EXPECT_THROW(multiply(a.factor(), b.factor(), c.data(), 2, false), Error);
  std::vector<TypeParam> memory(static_cast<std::size_t>(Packed<TypeParam>::size(b.factor())));
  const Packed<TypeParam> packed(b.factor(), memory.data());
  EXPECT_THROW(packed.multiply(a.factor(), c.data(), 2, false), Error);
}

}  // namespace
}  // namespace rapt::test
