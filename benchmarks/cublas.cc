#include "benchmarks/cublas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "rapt/error.h"

namespace rapt::bench {
namespace {

// Constants of cuBLAS's stable interface: types, the compute type, the algorithm.
constexpr int kF32 = 0, kF16 = 2, kBf16 = 14, kComputeF32 = 68, kDefaultAlgorithm = -1, kNotTransposed = 0;

int type_of(Dtype dtype) { return dtype == Dtype::bf16 ? kBf16 : dtype == Dtype::f16 ? kF16 : kF32; }

void* open_library() {
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so"})
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

// Zeros would run faster: a chip that switches fewer bits gets a higher clock.
std::vector<std::byte> some_numbers(Dtype dtype, std::size_t bytes) {
  const std::size_t each = size_of(dtype);
  std::vector<std::byte> list(bytes);
  for (std::size_t n = 0; n * each < bytes; ++n) {
    const auto x = static_cast<float>(std::sin(1.7 * static_cast<double>(n % 1'000'003)));
    std::byte* to = list.data() + n * each;
    if (dtype == Dtype::bf16) *reinterpret_cast<BFloat16*>(to) = to_bfloat16(x);
    else if (dtype == Dtype::f16) *reinterpret_cast<Float16*>(to) = to_float16(x);
    else *reinterpret_cast<float*>(to) = x;
  }
  return list;
}

}  // namespace

struct Cublas::Functions {
  using Create = int (*)(void**);
  using Destroy = int (*)(void*);
  using Multiply = int (*)(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                           const void* a, int type_a, int lda, const void* b, int type_b, int ldb, const void* beta,
                           void* c, int type_c, int ldc, int compute, int algorithm);
  Destroy destroy = nullptr;
  Multiply multiply = nullptr;
  void* handle = nullptr;
};

Cublas::Cublas(const Device& device, int size) : device_(device), size_(size) {
  void* library = open_library();
  if (!library) {
    missing_ = "libcublas was not found";
    return;
  }
  functions_ = std::make_unique<Functions>();
  const auto create = reinterpret_cast<Functions::Create>(dlsym(library, "cublasCreate_v2"));
  functions_->destroy = reinterpret_cast<Functions::Destroy>(dlsym(library, "cublasDestroy_v2"));
  functions_->multiply = reinterpret_cast<Functions::Multiply>(dlsym(library, "cublasGemmEx"));
  if (!create || !functions_->destroy || !functions_->multiply) missing_ = "libcublas lacks the expected functions";
  else if (const int status = create(&functions_->handle); status != 0)
    missing_ = "libcublas does not start: status " + std::to_string(status);
}

Cublas::~Cublas() {
  if (functions_ && functions_->handle) functions_->destroy(functions_->handle);
}

void Cublas::multiply(Dtype dtype) {
  const float one = 1, zero = 0;
  const int type = type_of(dtype);
  const int status = functions_->multiply(functions_->handle, kNotTransposed, kNotTransposed, size_, size_, size_, &one,
                                          a_->data(), type, size_, b_->data(), type, size_, &zero, c_->data(), type,
                                          size_, kComputeF32, kDefaultAlgorithm);
  if (status != 0) throw Error("bench: cuBLAS: status " + std::to_string(status));
}

double Cublas::rate(Dtype dtype, double seconds) {
  if (!missing_.empty()) throw Error("bench: " + missing_);
  const auto count = static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_);
  if (!a_) {
    for (auto* memory : {&a_, &b_, &c_}) *memory = std::make_unique<DeviceMemory>(device_, count * sizeof(float));
  }
  if (filled_ != dtype) {
    const std::vector<std::byte> numbers = some_numbers(dtype, count * size_of(dtype));
    a_->upload(numbers.data(), numbers.size());
    b_->upload(numbers.data(), numbers.size());
    filled_ = dtype;
  }
  DeviceTimer timer(device_);
  const auto timed = [&](int runs) {
    timer.start();
    for (int n = 0; n < runs; ++n) multiply(dtype);
    timer.stop();
    return timer.seconds() / runs;
  };
  timed(2);
  const double once = timed(1);
  const double each = timed(std::max(1, static_cast<int>(std::ceil(seconds / once))));
  return 2 * std::pow(static_cast<double>(size_), 3) / each / 1e12;
}

}  // namespace rapt::bench
