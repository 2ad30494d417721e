#pragma once

#include <string_view>
#include <vector>

namespace rapt {

// How many threads work when the options do not say: at first the processors this process may use.
int default_threads();
void set_default_threads(int threads);

// Calls keep some work space for the next one, at most 48 MiB in all. This gives it back to the system.
void release_work_space();

// The SIMD targets that the engine is compiled for. `portable` is the one of the platform's baseline.
enum class Isa { portable, sse4, avx2, avx512 };

const char* name_of(Isa isa);
std::vector<Isa> available_isas();  // that this processor can run, slowest first
Isa active_isa();                   // the best available, or what RAPT_ISA or set_isa chose
void set_isa(Isa isa);              // throws rapt::Error where the processor cannot run it

}  // namespace rapt
