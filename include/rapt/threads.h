#pragma once

#include <string_view>
#include <vector>

#include "rapt/api.h"

namespace rapt::inline v1 {

// The number of threads if the options give none: initially the processors available to this process.
RAPT_API int default_threads();
RAPT_API void set_default_threads(int threads);

// The host program's threads, lent to Rapt so that two pools do not compete for the processors. The function calls
// work(job, worker) once for each worker in [0, workers), concurrently or one after the other, and then returns.
using HostThreads = void (*)(int workers, void (*work)(void* job, int worker), void* job);

// From now on every call runs on the host's threads; null: on Rapt's own again. No bit depends on it. A forked child
// starts with Rapt's own, as it has none of its parent's threads.
RAPT_API void use_host_threads(HostThreads run);

// Every working thread calls it between tasks, so that a host can abort a long call: the call throws what it throws,
// and leaves its outputs undefined. Null: nothing is called.
RAPT_API void set_task_hook(void (*hook)());

// Calls keep some workspace for the next one, at most 48 MiB in all. This returns it to the system.
RAPT_API void release_workspace();

// The SIMD targets that the engine is compiled for. `portable` is the one of the platform's baseline.
enum class Isa { portable, sse4, avx2, avx512 };

RAPT_API const char* name_of(Isa isa);
RAPT_API std::vector<Isa> available_isas();  // that this processor can run, slowest first
RAPT_API Isa active_isa();                   // the best available, or what RAPT_ISA or set_isa chose
RAPT_API void set_isa(Isa isa);              // throws rapt::Error if the processor cannot run it

}  // namespace rapt::inline v1
