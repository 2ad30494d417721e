// The C API on the memory of the device that RAPT_TEST_DEVICE names: the bits of the C++ one.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "c/c_structs.h"
#include "rapt/device.h"
#include "rapt/registry.h"
#include "support/device.h"

namespace {

using Bytes = std::vector<std::byte>;

// Arrays of one call on the device, and its results.
class Arrays {
 public:
  Arrays(rapt::Dtype dtype, std::int64_t dim) {
    const rapt::Shape q{2, 4, 70, dim}, k{2, 2, 90, dim};
    inputs = {given(dtype, q, 1), given(dtype, k, 2), {given(dtype, k, 3)}};
    grad_out = {given(dtype, q, 4)};
    options.score.mechanism = &rapt::mechanism("alibi");
    options.score.parameters = {{"m", given(rapt::Dtype::f32, {1, 1, 1, 4}, 5)}};
    options.mask.causal = rapt::Causal::bottom_right;
    options.mask.key_lengths = {60, 90};
    outputs.out = {written(dtype, q)};
    outputs.lse = written(rapt::Dtype::f32, {2, 4, 70, 1});
    gradients.q = written(dtype, q);
    gradients.k = written(dtype, k);
    gradients.v = {written(dtype, k)};
    gradients.parameters = {{"m", written(rapt::Dtype::f32, {1, 1, 1, 4})}};
  }

  std::vector<Bytes> results() const {
    rapt::synchronize(support::test_device());
    std::vector<Bytes> all;
    for (const rapt::DeviceMemory* memory : results_) {
      all.emplace_back(memory->size());
      memory->download(all.back().data(), memory->size());
    }
    return all;
  }

  rapt::Inputs inputs;
  rapt::Outputs outputs;
  rapt::Gradients gradients;
  std::vector<rapt::ConstView> grad_out;
  rapt::AttendOptions options;

 private:
  rapt::View made(rapt::Dtype dtype, const rapt::Shape& shape) {
    const std::size_t bytes = static_cast<std::size_t>(rapt::element_count(shape)) * rapt::size_of(dtype);
    memories_.emplace_back(support::test_device(), bytes);
    const Bytes other(bytes, std::byte{0x5a});
    memories_.back().upload(other.data(), bytes);
    return {memories_.back().data(), dtype, shape, rapt::contiguous_strides(shape), support::test_device()};
  }
  rapt::View written(rapt::Dtype dtype, const rapt::Shape& shape) {
    const rapt::View view = made(dtype, shape);
    results_.push_back(&memories_.back());
    return view;
  }
  rapt::ConstView given(rapt::Dtype dtype, const rapt::Shape& shape, int seed) {
    const rapt::View view = made(dtype, shape);
    Bytes list(memories_.back().size());
    for (std::int64_t n = 0; n < rapt::element_count(shape); ++n) {
      const auto x = static_cast<float>(std::sin(0.7 * static_cast<double>(n) * seed + seed));
      std::byte* to = list.data() + static_cast<std::size_t>(n) * rapt::size_of(dtype);
      const rapt::BFloat16 half = rapt::to_bfloat16(x);
      if (dtype == rapt::Dtype::bf16) std::memcpy(to, &half, sizeof half);
      else std::memcpy(to, &x, sizeof x);
    }
    memories_.back().upload(list.data(), list.size());
    return view;
  }

  std::list<rapt::DeviceMemory> memories_;
  std::vector<rapt::DeviceMemory*> results_;
};

class CDevice : public testing::TestWithParam<rapt::Dtype> {};

TEST_P(CDevice, SameBitsAsCpp) {
  Arrays expected(GetParam(), 64), got(GetParam(), 64);
  rapt::Saved saved;
  expected.outputs.saved = &saved;
  rapt::attend(expected.inputs, expected.outputs, expected.options);
  rapt::attend_backward(expected.inputs, {expected.outputs.out[0]}, expected.grad_out, &saved, expected.gradients,
                        expected.options);

  const std::unique_ptr<rapt_saved, decltype(&rapt_saved_free)> handle(rapt_saved_create(), &rapt_saved_free);
  ASSERT_NE(handle, nullptr);
  const c_test::Options options(got.options);
  const c_test::Inputs inputs(got.inputs);
  const c_test::Outputs outputs(got.outputs, handle.get());
  const c_test::Gradients gradients(got.gradients);
  const std::vector<rapt_array> out = c_test::c_arrays(got.outputs.out), grad_out = c_test::c_arrays(got.grad_out);
  ASSERT_EQ(rapt_attend_forward(&inputs.c, &outputs.c, &options.c), RAPT_OK) << rapt_last_error();
  ASSERT_EQ(rapt_attend_backward(&inputs.c, out.data(), grad_out.data(), handle.get(), &gradients.c, &options.c),
            RAPT_OK)
      << rapt_last_error();
  EXPECT_EQ(got.results(), expected.results());
}

INSTANTIATE_TEST_SUITE_P(Types, CDevice, testing::Values(rapt::Dtype::f32, rapt::Dtype::bf16),
                         [](const testing::TestParamInfo<rapt::Dtype>& dtype) {
                           return dtype.param == rapt::Dtype::f32 ? "F32" : "Bf16";
                         });

}  // namespace
