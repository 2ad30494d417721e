#pragma once

#include <vector>

// The machine's limits, which attention is compared with, measured in the same run.
namespace rapt::bench {

struct Roofs {
  double fma_peak = 0;     // GFLOP/s of multiply-adds that stay in registers
  double kernel_rate = 0;  // GFLOP/s of the engine's own product on a tile in the L1 cache
  double sgemm_rate = 0;   // GFLOP/s of OpenBLAS
  int sgemm_size = 0;
  double copy_bandwidth = 0;  // GB/s, read and written bytes counted
  double read_bandwidth = 0;  // GB/s
};

// Matrix products of OpenBLAS, C = A·B of size³.
class Sgemm {
 public:
  Sgemm(int size, int threads);

  double run();  // one product, in GFLOP/s
  int size() const { return size_; }

 private:
  int size_;
  std::vector<float> a_, b_, c_;
};

double measure_fma_peak(int threads);
double measure_kernel_rate(int threads);
double measure_copy_bandwidth(int threads);
double measure_read_bandwidth(int threads);

Roofs measure_roofs(Sgemm& sgemm, int threads);

// OpenBLAS's threads spin for a while after a product; the next measurement must not share the cores with them.
void let_sgemm_rest();

}  // namespace rapt::bench
