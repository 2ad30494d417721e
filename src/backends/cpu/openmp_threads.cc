// Work on the threads of an OpenMP runtime that the process has already loaded. None is linked or loaded from here.

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "rapt/openmp.h"
#include "rapt/threads.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

namespace rapt::inline v1 {

#if defined(__linux__)
namespace {

using Region = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);

std::atomic<Region> region{nullptr};

struct Work {
  void (*work)(void*, int);
  void* job;
  std::atomic<int> joined{0}, left{0};
};

// The thread sanitizer cannot see the barriers of an uninstrumented runtime: work is handed over by this number, which
// no other call's stack overlaps, and back by `left`.
std::atomic<unsigned> begun{0};

// GOMP_parallel is the entry of GCC's runtime, and LLVM's and Intel's have it too. A team may be smaller than asked for.
void run_in_region(int workers, void (*work)(void*, int), void* job) {
  Work shared{work, job};
  begun.fetch_add(1, std::memory_order_release);
  region.load(std::memory_order_relaxed)(
      [](void* data) {
        static_cast<void>(begun.load(std::memory_order_acquire));
        auto& own = *static_cast<Work*>(data);
        own.work(own.job, own.joined.fetch_add(1));
        own.left.fetch_add(1, std::memory_order_release);
      },
      &shared, static_cast<unsigned>(workers), 0);
  static_cast<void>(shared.left.load(std::memory_order_acquire));
}

// Opened again, and left open: a runtime that is unloaded while its threads are used would end the process.
Region entry_of(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Region>(dlsym(library, "GOMP_parallel"));
}

// Only collects names: the loader's lock is held, and dlopen takes another one first.
int look_at(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  const std::string_view path = info->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.starts_with("libgomp") || file.starts_with("libomp") || file.starts_with("libiomp"))
    static_cast<std::vector<std::string>*>(data)->emplace_back(path);
  return 0;
}

}  // namespace

bool use_openmp_threads(std::string_view folder) {
  std::vector<std::string> paths;
  dl_iterate_phdr(look_at, &paths);
  const std::string first = std::string(folder) + "/";
  std::stable_partition(paths.begin(), paths.end(),
                        [&](const std::string& path) { return !folder.empty() && path.starts_with(first); });
  for (const std::string& path : paths) {
    if (Region found = entry_of(path)) {
      region.store(found);
      use_host_threads(run_in_region);
      return true;
    }
  }
  return false;
}
#else
bool use_openmp_threads(std::string_view /*folder*/) { return false; }
#endif

}  // namespace rapt::inline v1
