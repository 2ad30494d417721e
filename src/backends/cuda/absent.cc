#include "backends/cuda/added.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/device.h"
#include "distributed/device_site.h"
#include "rapt/error.h"

// For builds without CUDA.
namespace rapt::inline v1 {
namespace {

constexpr const char* kWhy = "this build has no CUDA (configure with RAPT_CUDA=ON)";

bool takes(const Problem& problem, const Request&, std::string& why) {
  why = problem.device.kind == Device::Kind::cuda ? kWhy : "expected arrays on cuda, got arrays on cpu";
  return false;
}

[[noreturn]] void refuse() { throw Error(std::string("cuda: ") + kWhy); }

}  // namespace

const Backend& cuda_backend() {
  static constexpr Backend backend{"cuda", &takes, nullptr, nullptr};
  return backend;
}

namespace cuda {

int device_count() { return 0; }
std::string describe(int) { refuse(); }
void* allocate(int, std::size_t) { refuse(); }
void release(int, void*) {}
void copy_to_device(int, void*, const void*, std::size_t) { refuse(); }
void copy_to_host(int, void*, const void*, std::size_t) { refuse(); }
void copy_to_device(int, void*, const void*, std::size_t, void*) { refuse(); }
void copy_to_host(int, void*, const void*, std::size_t, void*) { refuse(); }
void copy_within(int, void*, const void*, std::size_t, void*) { refuse(); }
void synchronize(int) { refuse(); }
void synchronize(int, void*) { refuse(); }
void* create_event(int) { refuse(); }
void release_event(int, void*) {}
void record_event(int, void*, void*) { refuse(); }
double seconds_between(int, void*, void*) { refuse(); }
void release_device_memory() {}
void add_programs(const MechanismInfo&, const Programs&, std::uint64_t) { refuse(); }

}  // namespace cuda

std::unique_ptr<distributed::Site> distributed::device_site(const Device&, void*) { refuse(); }

}  // namespace rapt::inline v1
