#include "host_threads.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <string_view>

#include "call.h"
#include "rapt/threads.h"

namespace rapt::python {
namespace {

using Region = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);

std::atomic<Region> region{nullptr};
PyObject* thread_count = nullptr;  // under Python's lock; never released at the end of the process

struct Work {
  void (*work)(void*, int);
  void* job;
  std::atomic<int> joined{0};
};

// GOMP_parallel is the entry of GCC's runtime, and LLVM's and Intel's have it too.
void run(int workers, void (*work)(void*, int), void* job) {
  Work shared{work, job};
  region.load()(
      [](void* data) {
        auto& own = *static_cast<Work*>(data);
        own.work(own.job, own.joined.fetch_add(1));
      },
      &shared, static_cast<unsigned>(workers), 0);
}

struct Search {
  std::string folder;
  std::string found;
};

int look_at(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (!file.starts_with("libgomp") && !file.starts_with("libomp") && !file.starts_with("libiomp")) return 0;
  const bool preferred = !search.folder.empty() && path.starts_with(search.folder + "/");
  if (preferred || search.found.empty()) search.found = path;
  return preferred ? 1 : 0;
}

}  // namespace

bool use_openmp(const std::string& folder, nb::object count) {
  Py_XDECREF(thread_count);
  thread_count = count.release().ptr();
  Search search{folder, {}};
  dl_iterate_phdr(look_at, &search);
  if (search.found.empty()) return false;
  void* library = dlopen(search.found.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  auto* found_region = reinterpret_cast<Region>(dlsym(library, "GOMP_parallel"));
  if (found_region == nullptr) return false;
  region.store(found_region);
  use_host_threads(run);
  return true;
}

void use_own_threads() {
  use_host_threads(nullptr);
  Py_CLEAR(thread_count);
}

int lent_threads() {
  if (thread_count == nullptr) return 0;
  nb::object count;
  try {
    count = nb::steal(PyObject_CallNoArgs(thread_count));
  } catch (const abi::__forced_unwind&) {
    stay_forever();
  }
  const long value = count.is_valid() ? PyLong_AsLong(count.ptr()) : -1;
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return static_cast<int>(value);
}

}  // namespace rapt::python
