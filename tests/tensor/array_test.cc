#include "tensor/array.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "rapt/error.h"

namespace rapt::test {
namespace {

Array doubles(const std::vector<double>& values) {
  return Array::of<double>({static_cast<std::int64_t>(values.size())}, values);
}

std::vector<double> through(ElementType type, const std::vector<double>& values) {
  const Array back = doubles(values).to(type).to(ElementType::f64);
  return {back.as<double>().begin(), back.as<double>().end()};
}

TEST(Array, StartsAtZeroAlignedForSimd) {
  const Array array(ElementType::f32, {3, 5});
  EXPECT_EQ(array.count(), 15);
  EXPECT_EQ(array.bytes(), 60u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data()) % 64, 0u);
  for (const float x : array.as<float>()) EXPECT_EQ(x, 0.f);
  EXPECT_FALSE(static_cast<bool>(Array()));
  EXPECT_TRUE(static_cast<bool>(Array(ElementType::f32, {0})));
}

TEST(Array, CopiesAreTheirOwn) {
  Array array = doubles({1, 2, 3});
  Array copy = array;
  copy.as<double>()[0] = 9;
  EXPECT_EQ(array.as<double>()[0], 1);
  array = copy;
  EXPECT_EQ(array.as<double>()[0], 9);
  const std::byte* data = array.data();
  EXPECT_EQ(std::move(array).to(ElementType::f64).data(), data);
  EXPECT_NE(copy.to(ElementType::f64).data(), copy.data());
}

TEST(Array, RefusesWrongTypesAndShapes) {
  Array array = doubles({1, 2, 3});
  EXPECT_THROW(array.as<float>(), Error);
  EXPECT_THROW(array.reshape({2, 2}), Error);
  EXPECT_THROW(array.to(ElementType::i32), Error);
  EXPECT_THROW(Array(ElementType::f32, {-1}), Error);
  EXPECT_THROW(Array(ElementType::f32, {std::int64_t{1} << 62, 4}), Error);
  EXPECT_THROW(Array(ElementType::f32, {0, std::int64_t{1} << 62, 4}), Error);
  EXPECT_THROW(Array(ElementType::i32, {2}).view(), Error);
  EXPECT_THROW(Array(ElementType::f32, {1, 1, 1, 1, 1}).view(), Error);
  EXPECT_THROW(Array::of<double>({4}, array.as<double>()), Error);
}

TEST(Array, ViewsAreAlignedToTheRight) {
  Array array(ElementType::f16, {3, 5});
  EXPECT_EQ(array.view().shape, (Shape{1, 1, 3, 5}));
  EXPECT_EQ(array.view().strides[2], 5);
  EXPECT_EQ(array.view().dtype, Dtype::f16);
  EXPECT_EQ(Array(ElementType::f64, {}).view().shape, (Shape{1, 1, 1, 1}));
}

TEST(Array, RoundsOnceToTheNearestEven) {
  // bf16 keeps 8 bits: 1 + 2⁻⁸ is a tie and goes to 1; the least bit more goes up, even where f32 cannot hold it.
  EXPECT_EQ(through(ElementType::bf16, {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 3 * 0x1p-8, 1 + 3 * 0x1p-8 - 0x1p-40}),
            (std::vector<double>{1, 1 + 0x1p-7, 1 + 0x1p-6, 1 + 0x1p-7}));
  // f16 keeps 11.
  EXPECT_EQ(
      through(ElementType::f16, {1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-45, -1 - 0x1p-11 - 0x1p-45, 65519.99999999, 65520}),
      (std::vector<double>{1, 1 + 0x1p-10, -1 - 0x1p-10, 65504, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(through(ElementType::f16, {0x1p-25, 0x1p-25 + 0x1p-60, 1e-300, 1e300, -1e300}),
            (std::vector<double>{0, 0x1p-24, 0, std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(std::isnan(through(ElementType::f16, {std::nan("")})[0]));
  EXPECT_TRUE(std::isnan(through(ElementType::bf16, {std::nan("")})[0]));
}

TEST(Array, ConvertsWholeNumbers) {
  const std::vector<std::int64_t> values{-3, 0, 7, std::int64_t{1} << 40};
  const Array floats = Array::of<std::int64_t>({4}, values).to(ElementType::f32);
  EXPECT_EQ(floats.as<float>()[0], -3.f);
  EXPECT_EQ(floats.as<float>()[3], 0x1p40f);
  const std::vector<std::uint64_t> large{~std::uint64_t{0}};
  EXPECT_EQ(Array::of<std::uint64_t>({1}, large).to(ElementType::f64).as<double>()[0], 0x1p64);
}

}  // namespace
}  // namespace rapt::test
