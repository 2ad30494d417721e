// Calls on the threads of an OpenMP runtime that the process has loaded. Its own functions tell whether work runs there.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "backends/cpu/parallel.h"
#include "rapt/c.h"
#include "rapt/openmp.h"
#include "rapt/threads.h"

namespace {

using Ask = int (*)();

// How many of the tasks ran in a region of the runtime.
int tasks_in_a_region(Ask in_parallel) {
  std::atomic<int> inside{0};
  std::vector<std::atomic<int>> runs(64);
  rapt::parallel_for(64, 3, [&](std::int64_t n, int worker) {
    EXPECT_GE(worker, 0);
    EXPECT_LT(worker, 3);
    ++runs[static_cast<std::size_t>(n)];
    if (in_parallel() != 0) ++inside;
  });
  for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
  return inside.load();
}

TEST(OpenMp, ALoadedRuntimeLendsItsThreads) {
  if (void* early = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD)) dlclose(early);
  else EXPECT_FALSE(rapt::use_openmp_threads()) << "none is loaded yet";
  void* library = dlopen("libgomp.so.1", RTLD_NOW);
  if (library == nullptr) GTEST_SKIP() << "there is no libgomp.so.1 here";
  const auto in_parallel = reinterpret_cast<Ask>(dlsym(library, "omp_in_parallel"));
  ASSERT_NE(in_parallel, nullptr);
  EXPECT_EQ(tasks_in_a_region(in_parallel), 0) << "none was asked for";

  ASSERT_TRUE(rapt::use_openmp_threads());
  EXPECT_EQ(tasks_in_a_region(in_parallel), 64);
  EXPECT_THROW(rapt::parallel_for(20, 3, [](std::int64_t, int) { throw std::runtime_error("task"); }),
               std::runtime_error);
  rapt::use_host_threads(nullptr);
  EXPECT_EQ(tasks_in_a_region(in_parallel), 0);

  // A folder that has none is no reason to refuse another.
  for (const char* folder : {static_cast<const char*>(nullptr), "", "/nowhere"}) {
    ASSERT_EQ(rapt_use_openmp_threads(folder), 1);
    EXPECT_EQ(tasks_in_a_region(in_parallel), 64);
    rapt_use_host_threads(nullptr);
    EXPECT_EQ(tasks_in_a_region(in_parallel), 0);
  }
}

}  // namespace
