#include "backends/cuda/runtime/kernels.h"

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>

#include "attend/backend.h"
#include "backends/cuda/call.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/runtime/compile.h"
#include "mechanisms/device_hooks.h"
#include "mechanisms/objects.h"
#include "rapt/error.h"
#include "rapt/tiles.h"

namespace rapt::inline v1::cuda {
namespace {

static_assert(kMaxFreeTables == kMaxTables);

// The driver's functions, found through the runtime: nothing links against the driver.
struct Driver {
  decltype(&cuModuleLoadData) load = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuFuncSetAttribute) set = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
  decltype(&cuGetErrorString) error = nullptr;

  Driver() {
    find(load, "cuModuleLoadData");
    find(function, "cuModuleGetFunction");
    find(set, "cuFuncSetAttribute");
    find(launch, "cuLaunchKernel");
    find(error, "cuGetErrorString");
  }

  void check(CUresult status, const std::string& what) const {
    if (status == CUDA_SUCCESS) return;
    const char* text = nullptr;
    error(status, &text);
    throw Error("cuda: formula: " + what + ": " + (text ? text : "an error that the driver does not name"));
  }

 private:
  template <class F>
  static void find(F& function, const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    cuda::check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
    if (!found) throw Error(std::string("cuda: formula: expected the driver's ") + name + ", found none");
    function = reinterpret_cast<F>(found);
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

const DeviceHooks& hooks_of(const Problem& problem) {
  return problem.mechanism->definition().entry->device_hooks(problem.object, offsets_are_masks(problem));
}

}  // namespace

class Kernels {
 public:
  Kernels(std::string hooks, std::string architecture)
      : hooks_(std::move(hooks)), architecture_(std::move(architecture)) {}

  // Compiles and loads it on first use.
  CUfunction find(const std::string& kernel, int shared_bytes) const {
    const std::lock_guard lock(mutex_);
    auto [place, fresh] = functions_.try_emplace(kernel);
    if (!place->second) place->second = make(kernel, shared_bytes);
    return place->second;
  }

 private:
  CUfunction make(const std::string& kernel, int shared_bytes) const {
    const CompiledKernel compiled = compile_kernel(hooks_, kernel, architecture_);
    cuda::check(cudaFree(nullptr), "context");  // the device's, as the runtime has it
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    driver().check(driver().load(&module, compiled.image.data()), "loading " + kernel);
    driver().check(driver().function(&function, module, compiled.name.c_str()), kernel);
    driver().check(driver().set(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes), kernel);
    return function;
  }

  std::string hooks_, architecture_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, CUfunction> functions_;
};

bool is_compiled_at_run_time(const Problem& problem) {
  const RegistryEntry* entry = problem.mechanism->definition().entry;
  return entry && entry->device_hooks;
}

bool offsets_are_masks(const Problem& problem) {
  return problem.offsets_seen && problem.first_offset <= 0 && problem.last_offset >= 0;
}

std::string run_time_refusal(const Problem& problem, const BackwardRequest* backward) {
  if (!is_compiled_at_run_time(problem)) return "";
  if (hooks_of(problem).source.empty()) return "this formula has no kernels for a device";
  // Its sums are kept of every batch and head apart.
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 30;
  for (const ParameterValue& value : problem.parameters) {
    if (!backward || value.spec->role != Role::table) continue;
    const std::int64_t apart = problem.batch * problem.heads * value.size();
    for (const NamedGradient& g : backward->gradients.parameters)
      if (g.name == value.spec->name && apart > kMostNumbers)
        return "the gradient of '" + g.name + "': expected a table of at most " + std::to_string(kMostNumbers) +
               " numbers times batches and heads on a device, got " + std::to_string(apart);
  }
  return compiler_refusal();
}

std::vector<int> reads_of_table(const Problem& problem, int table) {
  const std::vector<int>& tables = hooks_of(problem).table_reads;
  std::vector<int> reads;
  for (std::size_t n = 0; n < tables.size(); ++n)
    if (tables[n] == table) reads.push_back(static_cast<int>(n));
  return reads;
}

// Kernels are kept as long as the program runs; equal formulas share them.
const Kernels& kernels_of(const Problem& problem) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::pair<int, std::string>, std::unique_ptr<Kernels>>;
  const std::string& source = hooks_of(problem).source;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Kernels>& own = all[{problem.device.index, source}];
  if (!own) own = std::make_unique<Kernels>(source, "sm_90a");
  return *own;
}

void start_kernel(const Kernels& kernels, const std::string& kernel, const LaunchSize& size, cudaStream_t stream,
                  void** arguments) {
  driver().check(driver().launch(kernels.find(kernel, size.shared_bytes), size.grid.x, size.grid.y, size.grid.z,
                                 static_cast<unsigned>(size.threads), 1, 1, static_cast<unsigned>(size.shared_bytes),
                                 stream, arguments, nullptr),
                 kernel);
}

}  // namespace rapt::inline v1::cuda
