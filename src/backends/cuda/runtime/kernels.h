#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

// Kernels that are compiled when first launched: those of a mechanism whose hooks are text.
namespace rapt::inline v1 {

struct BackwardRequest;
struct Problem;

namespace cuda {

struct Programs;

bool is_compiled_at_run_time(const Problem& problem);
// Empty if its kernels can be compiled.
std::string run_time_refusal(const Problem& problem, const BackwardRequest* backward);
// Of a problem whose kernels are compiled at run time.
const Programs& run_time_programs(const Problem& problem);

// Whether the offsets that the mechanism's visible() leaves are a window around the query, which masks have.
bool offsets_are_masks(const Problem& problem);

// Which of the score's reads of tables are of this one.
std::vector<int> reads_of_table(const Problem& problem, int table);

// The kernels of one formula on one device.
class Kernels;
const Kernels& kernels_of(const Problem& problem);

struct LaunchSize {
  dim3 grid;
  int threads = 0, shared_bytes = 0;
};

// kernel: a name with its template arguments, in rapt::cuda; @ stands for the mechanism.
void start_kernel(const Kernels& kernels, const std::string& kernel, const LaunchSize& size, cudaStream_t stream,
                  void** arguments);

template <class... A>
void start(const Kernels& kernels, const std::string& kernel, const LaunchSize& size, cudaStream_t stream,
           const A&... arguments) {
  void* addresses[] = {const_cast<A*>(&arguments)...};
  start_kernel(kernels, kernel, size, stream, addresses);
}

}  // namespace cuda
}  // namespace rapt::inline v1
