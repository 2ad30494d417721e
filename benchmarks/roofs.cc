#include "benchmarks/roofs.h"

#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

#include "backends/cpu/parallel.h"
#include "backends/cpu/simd/kernels.h"
#include "benchmarks/peak.h"
#include "benchmarks/timing.h"
#include "rapt/error.h"

namespace rapt::bench {
namespace {

constexpr double kGiga = 1e9;

// The best of many runs of the same task on every thread: a roof is what the undisturbed machine can do, and new
// threads (ours, or sgemm's, which spin) may share a processor for a while.
template <class F>
double best_rate(int threads, double work_of_all, F task) {
  constexpr double kLeast = 0.3;
  double best = 0, total = 0;
  for (int run = 0; run < 5 || total < kLeast; ++run) {
    const double seconds = seconds_of([&] { parallel_for(threads, threads, [&](std::int64_t n, int) { task(n); }); });
    best = std::max(best, work_of_all / seconds / kGiga);
    total += seconds;
  }
  return best;
}

// More than the last-level cache of most machines.
constexpr std::int64_t kBandwidthBytes = std::int64_t{256} << 20;

struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};

Part part_of(std::size_t total, std::int64_t n, int threads) {
  const auto place = [&](std::int64_t k) {
    return total * static_cast<std::size_t>(k) / static_cast<std::size_t>(threads);
  };
  return {place(n), place(n + 1) - place(n)};
}

// OpenBLAS, loaded when it is first measured, because loading it starts threads.
struct Blas {
  decltype(&::openblas_set_num_threads) set_threads;
  decltype(&::cblas_sgemm) sgemm;
};

const Blas& blas() {
  static const Blas loaded = [] {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const std::string why = dlerror();
      library = dlopen("libopenblas.dylib", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) throw Error("bench: expected the library libopenblas.so.0, got: " + why);
    }
    const auto find = [&](const char* name) {
      void* const symbol = dlsym(library, name);
      if (symbol == nullptr)
        throw Error(std::string("bench: expected the function ") + name + " of OpenBLAS, got none");
      return symbol;
    };
    return Blas{reinterpret_cast<decltype(Blas::set_threads)>(find("openblas_set_num_threads")),
                reinterpret_cast<decltype(Blas::sgemm)>(find("cblas_sgemm"))};
  }();
  return loaded;
}

}  // namespace

Sgemm::Sgemm(int size, int threads)
    : size_(size),
      a_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), 0.5f),
      b_(a_.size(), 0.25f),
      c_(a_.size()) {
  blas().set_threads(threads);
}

double Sgemm::run() {
  const double seconds = seconds_of([&] {
    blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size_, size_, size_, 1.0f, a_.data(), size_, b_.data(),
                 size_, 0.0f, c_.data(), size_);
  });
  const auto n = static_cast<double>(size_);
  return 2 * n * n * n / seconds / kGiga;
}

void let_sgemm_rest() { std::this_thread::sleep_for(std::chrono::milliseconds(40)); }

double measure_fma_peak(int threads) {
  constexpr std::int64_t kRounds = 2'000'000;
  const double one = run_fmas(kRounds);
  return best_rate(threads, one * threads, [](std::int64_t) { run_fmas(kRounds); });
}

double measure_kernel_rate(int threads) {
  // 20 kB in all, for an L1 cache of 32 kB.
  constexpr std::int64_t kRows = 32, kCols = 32, kInner = 64;
  constexpr int kRepeats = 2000;
  constexpr std::size_t kCount = kRows * kInner + kInner * kCols + kRows * kCols;
  std::vector<std::vector<float>> tiles(static_cast<std::size_t>(threads), std::vector<float>(kCount, 0.5f));
  const auto task = [&](std::int64_t n) {
    float* tile = tiles[static_cast<std::size_t>(n)].data();
    ProductArgs<float> args;
    args.m = kRows;
    args.n = kCols;
    args.k = kInner;
    args.a = tile;
    args.a_row = kInner;
    args.a_col = 1;
    args.b = tile + kRows * kInner;
    args.b_row = kCols;
    args.c = tile + kRows * kInner + kInner * kCols;
    args.c_row = kCols;
    for (int repeat = 0; repeat < kRepeats; ++repeat) kernels_for<float>(active_isa()).product(args);
  };
  return best_rate(threads, 2.0 * kRows * kCols * kInner * kRepeats * threads, task);
}

double measure_copy_bandwidth(int threads) {
  std::vector<char> from(kBandwidthBytes / 2, 1), to(from.size());
  return best_rate(threads, 2.0 * static_cast<double>(from.size()), [&](std::int64_t n) {
    const Part part = part_of(from.size(), n, threads);
    std::memcpy(to.data() + part.first, from.data() + part.first, part.count);
  });
}

double measure_read_bandwidth(int threads) {
  std::vector<std::uint64_t> from(kBandwidthBytes / sizeof(std::uint64_t), 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 8);
  return best_rate(threads, static_cast<double>(kBandwidthBytes), [&](std::int64_t n) {
    const Part part = part_of(from.size(), n, threads);
    const std::uint64_t* first = from.data() + part.first;
    sums[static_cast<std::size_t>(n) * 8] = std::accumulate(first, first + part.count, std::uint64_t{0});
  });
}

Roofs measure_roofs(Sgemm& sgemm, int threads) {
  Roofs roofs;
  roofs.fma_peak = measure_fma_peak(threads);
  roofs.kernel_rate = measure_kernel_rate(threads);
  roofs.copy_bandwidth = measure_copy_bandwidth(threads);
  roofs.read_bandwidth = measure_read_bandwidth(threads);
  sgemm.run();
  std::vector<double> rates;
  for (int run = 0; run < 3; ++run) rates.push_back(sgemm.run());
  roofs.sgemm_rate = spread_of(rates).median;
  roofs.sgemm_size = sgemm.size();
  let_sgemm_rest();
  return roofs;
}

}  // namespace rapt::bench
