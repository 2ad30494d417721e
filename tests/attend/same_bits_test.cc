// The same bits in every run: a thousand times on a device, for each kind of kernel; on a cpu a few times, over counts of
// threads.

#include <gtest/gtest.h>

#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "rapt/device.h"
#include "rapt/rapt.h"
#include "support/device.h"

namespace {

using rapt::Dtype;
using Int = std::int64_t;
using Bytes = std::vector<std::byte>;

struct Parameter {
  std::string name;
  rapt::Shape shape;
};

struct Kernel {
  std::string name;
  Dtype dtype = Dtype::bf16;
  std::string mechanism = "scaled_dot";
  std::string parameter{};  // one number for each head
  rapt::Causal causal = rapt::Causal::none;
  rapt::Path path = rapt::Path::automatic;
  double softcap = 0;
  Int key_heads = 4;
  Int dim = 128;
  Int heads = 4, queries = 261, keys = 389;  // many tiles, the last of them not full
  Int grid_rows = 0, grid_cols = 0;          // of mechanisms of a grid, whose queries and keys they are
  std::vector<Parameter> tables{};           // parameters of other shapes
  Int packed = 0;                            // queries, and keys, of each packed sequence
  bool bias = false;
  rapt::Normalizer normalizer = rapt::Normalizer::softmax;
  std::string normalizer_parameter{};  // one number for each head
  Int rotary_dims = 0;
  bool lse_gradient = false;
};

constexpr Int kBatch = 2;

std::size_t bytes_of(Dtype dtype, const rapt::Shape& shape) {
  return static_cast<std::size_t>(rapt::element_count(shape)) * rapt::size_of(dtype);
}

Bytes numbers(Dtype dtype, const rapt::Shape& shape, std::uint64_t seed) {
  Bytes list(bytes_of(dtype, shape));
  for (std::size_t n = 0; n * rapt::size_of(dtype) < list.size(); ++n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto x = static_cast<float>(static_cast<double>(seed >> 11) * 0x1p-52 - 1);
    std::byte* to = list.data() + n * rapt::size_of(dtype);
    const auto put = [&](auto number) { std::memcpy(to, &number, sizeof(number)); };
    if (dtype == Dtype::bf16) put(rapt::to_bfloat16(x));
    else if (dtype == Dtype::f16) put(rapt::to_float16(x));
    else put(x);
  }
  return list;
}

// A call with all its arrays on the device under test, made once: a run only starts kernels and copies results back.
class Repeated {
 public:
  explicit Repeated(const Kernel& kernel) {
    const Int places = kernel.grid_rows * kernel.grid_cols, queries = places > 0 ? places : kernel.queries;
    const rapt::Shape q{kBatch, kernel.heads, queries, kernel.dim},
        k{kBatch, kernel.key_heads, places > 0 ? places : kernel.keys, kernel.dim};
    inputs_ = {given(kernel.dtype, q, 1), given(kernel.dtype, k, 2), {given(kernel.dtype, k, 3)}};
    grad_out_ = {given(kernel.dtype, q, 4)};
    outputs_.out = {written(kernel.dtype, q)};
    outputs_.lse = written(Dtype::f32, {kBatch, kernel.heads, queries, 1});
    outputs_.saved = &saved_;
    gradients_.q = written(kernel.dtype, q);
    gradients_.k = written(kernel.dtype, k);
    gradients_.v = {written(kernel.dtype, k)};
    options.score.mechanism = &rapt::mechanism(kernel.mechanism);
    options.mask.causal = kernel.causal;
    options.softcap = kernel.softcap;
    options.path = kernel.path;
    if (!kernel.parameter.empty()) {
      const rapt::Shape heads{1, 1, 1, kernel.heads};
      options.score.parameters = {{kernel.parameter, given(Dtype::f32, heads, 5)}};
      gradients_.parameters = {{kernel.parameter, written(Dtype::f32, heads)}};
    }
    options.normalizer = kernel.normalizer;
    if (!kernel.normalizer_parameter.empty()) {
      const rapt::Shape heads{1, 1, 1, kernel.heads};
      options.normalizer_parameters = {{kernel.normalizer_parameter, given(Dtype::f32, heads, 13)}};
      gradients_.parameters.push_back({kernel.normalizer_parameter, written(Dtype::f32, heads)});
    }
    options.rotary.dims = kernel.rotary_dims;
    if (kernel.lse_gradient) grad_lse_ = given(Dtype::f32, outputs_.lse.shape, 14);
    if (places > 0) options.score.grid = {kernel.grid_rows, kernel.grid_cols};
    for (const Parameter& table : kernel.tables) {
      options.score.parameters.push_back(
          {table.name, given(Dtype::f32, table.shape, 6 + options.score.parameters.size())});
      gradients_.parameters.push_back({table.name, written(Dtype::f32, table.shape)});
    }
    for (Int n = 0; kernel.packed > 0 && n <= queries; n += kernel.packed) {
      options.mask.query_starts.push_back(n);
      options.mask.key_starts.push_back(n);
    }
    if (kernel.bias) {
      const rapt::Shape pairs{1, kernel.heads, queries, k[2]};
      options.bias = given(Dtype::f32, pairs, 12);
      gradients_.bias = written(Dtype::f32, pairs);
    }
  }

  // All outputs and gradients, after arrays that hold something else.
  Bytes run() {
    Bytes all;
    for (rapt::DeviceMemory* memory : results_) {
      const Bytes other(memory->size(), std::byte{0x5a});
      memory->upload(other.data(), other.size());
    }
    rapt::attend(inputs_, outputs_, options);
    rapt::attend_backward(inputs_, {outputs_.out[0]}, grad_out_, &saved_, gradients_, options, grad_lse_);
    rapt::synchronize(support::test_device());
    for (const rapt::DeviceMemory* memory : results_) {
      const std::size_t end = all.size();
      all.resize(end + memory->size());
      memory->download(all.data() + end, memory->size());
    }
    return all;
  }

  rapt::AttendOptions options;

 private:
  rapt::View made(Dtype dtype, const rapt::Shape& shape) {
    memories_.emplace_back(support::test_device(), bytes_of(dtype, shape));
    return {memories_.back().data(), dtype, shape, rapt::contiguous_strides(shape), support::test_device()};
  }
  rapt::View written(Dtype dtype, const rapt::Shape& shape) {
    const rapt::View view = made(dtype, shape);
    results_.push_back(&memories_.back());
    return view;
  }
  rapt::ConstView given(Dtype dtype, const rapt::Shape& shape, std::uint64_t seed) {
    const rapt::View view = made(dtype, shape);
    memories_.back().upload(numbers(dtype, shape, seed).data(), memories_.back().size());
    return view;
  }

  std::list<rapt::DeviceMemory> memories_;
  std::vector<rapt::DeviceMemory*> results_;
  rapt::Inputs inputs_;
  rapt::Outputs outputs_;
  rapt::Gradients gradients_;
  std::vector<rapt::ConstView> grad_out_;
  rapt::ConstView grad_lse_;
  rapt::Saved saved_;
};

class SameBits : public testing::TestWithParam<Kernel> {};

TEST_P(SameBits, InEveryRun) {
  const int repetitions = support::on_cpu() ? 6 : 1000;
  Repeated call(GetParam());
  const Bytes first = call.run();
  for (int n = 1; n < repetitions; ++n) {
    if (support::on_cpu()) call.options.threads = 1 + n % 5;
    ASSERT_TRUE(call.run() == first) << "run " << n << " of " << repetitions;
  }
}

std::vector<Kernel> kernels() {
  using rapt::Causal;
  return {
      {.name = "Bf16Full"},
      {.name = "Bf16Causal", .causal = Causal::bottom_right},
      {.name = "Bf16Dim64Causal", .causal = Causal::top_left, .dim = 64},
      {.name = "Bf16Dim256", .dim = 256},
      {.name = "Bf16ManyHeads", .heads = 12, .queries = 1000},
      {.name = "Bf16ManyHeadsCausal", .causal = Causal::bottom_right, .heads = 12, .queries = 1000, .keys = 1100},
      {.name = "F16SharedKeysSoftcap", .dtype = Dtype::f16, .softcap = 5, .key_heads = 2},
      {.name = "Bf16Alibi", .mechanism = "alibi", .parameter = "m", .causal = Causal::bottom_right},
      {.name = "GeneralBf16", .path = rapt::Path::generic},
      {.name = "GeneralF32", .dtype = Dtype::f32, .dim = 72},
      {.name = "GeneralF32Alibi",
       .dtype = Dtype::f32,
       .mechanism = "alibi",
       .parameter = "m",
       .causal = Causal::bottom_right,
       .dim = 40},
      {.name = "Bf16Grid",
       .mechanism = "quadratic",
       .parameter = "alpha",
       .dim = 44,
       .grid_rows = 16,
       .grid_cols = 16,
       .tables = {{"center", {1, 1, 4, 2}}}},
      {.name = "F32GridSharedValues",
       .dtype = Dtype::f32,
       .mechanism = "quadratic",
       .parameter = "alpha",
       .key_heads = 2,
       .dim = 33,
       .grid_rows = 20,
       .grid_cols = 13,
       .tables = {{"center", {1, 1, 4, 2}}}},
      {.name = "GridOfALongAxis",
       .mechanism = "quadratic",
       .parameter = "alpha",
       .key_heads = 1,
       .dim = 8,
       .grid_rows = 4,
       .grid_cols = 250,
       .tables = {{"center", {1, 1, 4, 2}}}},
      {.name = "Bf16T5", .mechanism = "t5", .tables = {{"table", {1, 1, 4, 32}}}},
      {.name = "Bf16Gaussian",
       .mechanism = "gaussian",
       .dim = 64,
       .grid_rows = 15,
       .grid_cols = 17,
       .tables = {{"center", {1, 1, 4, 2}}, {"gamma", {1, 4, 2, 2}}}},
      {.name = "Bf16Packed", .causal = Causal::top_left, .dim = 64, .queries = 400, .keys = 400, .packed = 100},
      {.name = "Bf16OneQuery", .key_heads = 1, .queries = 1, .keys = 9000},
      {.name = "Bf16FewQueries", .causal = Causal::bottom_right, .key_heads = 2, .queries = 5, .keys = 5000},
      {.name = "Bf16SinkAndLse",
       .causal = Causal::top_left,
       .dim = 64,
       .normalizer_parameter = "sink",
       .lse_gradient = true},
      {.name = "GeneralSparsemax", .dim = 40, .normalizer = rapt::Normalizer::sparsemax},
      {.name = "GeneralEntmaxF32", .dtype = Dtype::f32, .dim = 40, .normalizer = rapt::Normalizer::entmax15},
      {.name = "GeneralSigmoid", .dim = 40, .normalizer = rapt::Normalizer::sigmoid, .normalizer_parameter = "b"},
      {.name = "GeneralArgmax", .dim = 40, .normalizer = rapt::Normalizer::argmax},
      {.name = "GeneralRotary", .key_heads = 2, .dim = 64, .rotary_dims = 32},
      {.name = "GeneralCosine", .mechanism = "cosine", .parameter = "tau", .dim = 40},
      {.name = "GeneralBilinear", .mechanism = "bilinear", .dim = 40, .tables = {{"W", {1, 4, 40, 40}}}},
      {.name = "GeneralBias", .dim = 64, .bias = true},
      {.name = "GeneralDistance", .mechanism = "distance", .parameter = "gamma", .dim = 40},
      {.name = "GeneralAdditive", .mechanism = "additive", .dim = 40, .tables = {{"w", {1, 1, 1, 40}}}},
      {.name = "GeneralShaw",
       .mechanism = "shaw",
       .dim = 64,
       .tables = {{"a", {1, 1, 33, 64}}, {"values", {1, 1, 33, 64}}}},
      {.name = "GeneralTransformerXl",
       .mechanism = "transformer_xl",
       .dim = 64,
       .queries = 389,
       .tables = {{"r", {1, 1, 777, 64}}, {"u", {1, 1, 4, 64}}, {"v", {1, 1, 4, 64}}}},
      {.name = "GeneralLearned2d",
       .mechanism = "learned_2d",
       .dim = 48,
       .grid_rows = 9,
       .grid_cols = 13,
       .tables = {{"row", {1, 1, 17, 48}}, {"col", {1, 1, 25, 48}}}},
  };
}

INSTANTIATE_TEST_SUITE_P(Kernels, SameBits, testing::ValuesIn(kernels()),
                         [](const testing::TestParamInfo<Kernel>& kernel) { return kernel.param.name; });

}  // namespace
