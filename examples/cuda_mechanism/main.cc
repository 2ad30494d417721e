// A custom mechanism on a GPU: kernels.cu is compiled by nvcc, this file by any C++20 compiler. The same call runs on
// CPU and GPU, and the results are compared.
#include <rapt/rapt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <list>
#include <vector>

#include "../new_mechanism/kerple.h"

void add_kerple_kernels();  // kernels.cu

namespace {

constexpr std::int64_t kHeads = 3, kQueries = 130, kKeys = 200, kDim = 64;

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> list;
  for (std::int64_t n = 0; n < count; ++n)
    list.push_back(static_cast<float>(std::sin(1.7 * static_cast<double>(n) + seed)));
  return list;
}

// The arrays of a call on one device, and its results.
class Attention {
 public:
  explicit Attention(const rapt::Device& device) : device_(device) {}

  // out, then the gradients of q, k, v, a and b of Σ out² / 2.
  std::vector<std::vector<float>> run() {
    const rapt::View q = given({1, kHeads, kQueries, kDim}, 1), k = given({1, kHeads, kKeys, kDim}, 2);
    const rapt::View v = given({1, kHeads, kKeys, kDim}, 3);
    const rapt::View out = written({1, kHeads, kQueries, kDim});
    rapt::AttendOptions options;
    options.score = rapt::custom(rapt::mechanisms::Kerple{});
    options.score.parameters = {{"a", positive({1, 1, 1, kHeads}, 4)}, {"b", positive({1, 1, 1, kHeads}, 5)}};
    options.mask.causal = rapt::Causal::bottom_right;
    rapt::Saved saved;
    rapt::attend({q, k, {v}}, {.out = {out}, .saved = &saved}, options);
    rapt::Gradients gradients;
    gradients.q = written(q.shape);
    gradients.k = written(k.shape);
    gradients.v = {written(v.shape)};
    gradients.parameters = {{"a", written({1, 1, 1, kHeads})}, {"b", written({1, 1, 1, kHeads})}};
    rapt::attend_backward({q, k, {v}}, {out}, {out}, &saved, gradients, options);
    rapt::synchronize(device_);
    std::vector<std::vector<float>> results;
    for (const rapt::DeviceMemory* memory : results_) {
      results.emplace_back(memory->size() / sizeof(float));
      memory->download(results.back().data(), memory->size());
    }
    return results;
  }

 private:
  rapt::View made(const rapt::Shape& shape) {
    memories_.emplace_back(device_, static_cast<std::size_t>(rapt::element_count(shape)) * sizeof(float));
    return {memories_.back().data(), rapt::Dtype::f32, shape, rapt::contiguous_strides(shape), device_};
  }
  rapt::View given(const rapt::Shape& shape, int seed) {
    const rapt::View view = made(shape);
    memories_.back().upload(numbers(rapt::element_count(shape), seed).data(), memories_.back().size());
    return view;
  }
  rapt::View positive(const rapt::Shape& shape, int seed) {
    const rapt::View view = made(shape);
    std::vector<float> list = numbers(rapt::element_count(shape), seed);
    for (float& x : list) x = 0.2F + x * x;
    memories_.back().upload(list.data(), memories_.back().size());
    return view;
  }
  rapt::View written(const rapt::Shape& shape) {
    const rapt::View view = made(shape);
    results_.push_back(&memories_.back());
    return view;
  }

  rapt::Device device_;
  std::list<rapt::DeviceMemory> memories_;
  std::vector<const rapt::DeviceMemory*> results_;
};

}  // namespace

int main() try {
  const std::vector<std::vector<float>> expected = Attention({}).run();
  if (rapt::device_count(rapt::Device::Kind::cuda) == 0) {
    std::printf("skipped: this library sees no GPU; the kernels were compiled and linked\n");
    return 0;
  }
  add_kerple_kernels();
  const std::vector<std::vector<float>> got = Attention({rapt::Device::Kind::cuda, 0}).run();
  int failures = 0;
  const char* names[] = {"out", "gradient of q", "gradient of k", "gradient of v", "gradient of a", "gradient of b"};
  for (std::size_t n = 0; n < expected.size(); ++n) {
    double size = 0, worst = 0;
    for (std::size_t e = 0; e < expected[n].size(); ++e) {
      size = std::max(size, std::abs(static_cast<double>(expected[n][e])));
      const double far = std::abs(static_cast<double>(got[n][e]) - expected[n][e]);
      worst = far <= worst ? worst : far;  // and NaN is the worst
    }
    const bool good = worst <= 2e-5 * size;
    std::printf("%-14s largest difference from the cpu %.1e of %.1e: %s\n", names[n], worst, size,
                good ? "ok" : "FAILED");
    if (!good) ++failures;
  }
  return failures == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
