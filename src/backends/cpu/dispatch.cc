#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <span>
#include <string>

#include "backends/cpu/first_call.h"
#include "backends/cpu/processors.h"
#include "backends/cpu/simd/kernels.h"
#include "backends/cpu/targets.h"
#include "backends/cpu/x86/processor.h"
#include "normalizers/list.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/threads.h"

namespace rapt::inline v1 {

#define RAPT_DECLARE(name)                          \
  namespace name {                                  \
  template <class T>                                \
  const Kernels<T>& kernels();                      \
  extern template const Kernels<float>& kernels();  \
  extern template const Kernels<double>& kernels(); \
  }
RAPT_FOR_EACH_TARGET(RAPT_DECLARE)
#undef RAPT_DECLARE

#define RAPT_PROGRAM(name)                                    \
  template <class T>                                          \
  const NormalizerProgram<T>& normalizer_##name();            \
  template <>                                                 \
  const NormalizerProgram<float>& normalizer_##name<float>(); \
  template <>                                                 \
  const NormalizerProgram<double>& normalizer_##name<double>();
#define RAPT_DECLARE(target)             \
  namespace target {                     \
  RAPT_FOR_EACH_NORMALIZER(RAPT_PROGRAM) \
  }
RAPT_FOR_EACH_TARGET(RAPT_DECLARE)
#undef RAPT_DECLARE
#undef RAPT_PROGRAM

namespace {

bool is_compiled(Isa isa) {
#define RAPT_IS(name) \
  if (isa == Isa::name) return true;
  RAPT_FOR_EACH_TARGET(RAPT_IS)
#undef RAPT_IS
  return false;
}

bool processor_has(Isa isa) {
  if (!is_compiled(isa)) return false;
#if defined(__x86_64__)
  static const ProcessorReport processor = read_processor();
  return can_run(isa, processor);
#else
  return isa == Isa::portable;
#endif
}

Isa first_choice() {
  const std::vector<Isa> available = available_isas();
  if (available.empty())
    throw Error(
        "rapt: expected a processor that runs an instruction set of this build (on x86-64: SSE4 or newer), "
        "got one that runs none");
  const char* wish = std::getenv("RAPT_ISA");
  if (wish == nullptr || *wish == '\0') return available.back();
  for (const Isa isa : available)
    if (std::string(name_of(isa)) == wish) return isa;
  std::string known;
  for (const Isa isa : available) known += std::string(known.empty() ? "" : ", ") + name_of(isa);
  throw Error("RAPT_ISA: expected one that this processor runs: " + known + ", got '" + std::string(wish) + "'");
}

std::atomic<int>& chosen_isa() {
  static std::atomic<int> isa{static_cast<int>(first_choice())};
  return isa;
}

// 0: not counted yet. Counted by the first call, so that a forked child that has made none counts what it may use itself.
constinit std::atomic<int> chosen_threads{0};

}  // namespace

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::portable: return "portable";
    case Isa::sse4: return "sse4";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "?";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::portable, Isa::sse4, Isa::avx2, Isa::avx512})
    if (processor_has(isa)) list.push_back(isa);
  return list;
}

Isa active_isa() { return static_cast<Isa>(chosen_isa().load(std::memory_order_relaxed)); }

void set_isa(Isa isa) {
  if (!processor_has(isa))
    throw Error(std::string("set_isa: expected an instruction set that this processor runs, got ") + name_of(isa));
  chosen_isa().store(static_cast<int>(isa), std::memory_order_relaxed);
}

int default_threads() {
  int threads = chosen_threads.load(std::memory_order_relaxed);
  if (threads != 0) return threads;
  const int counted = usable_processors();
  return chosen_threads.compare_exchange_strong(threads, counted, std::memory_order_relaxed) ? counted : threads;
}

void set_default_threads(int threads) {
  if (threads < 1) throw Error("set_default_threads: expected 1 or more, got " + std::to_string(threads));
  chosen_threads.store(threads, std::memory_order_relaxed);
}

template <class T>
const Kernels<T>& kernels_for(Isa isa) {
  switch (isa) {
#define RAPT_CASE(name) \
  case Isa::name: return name::kernels<T>();
    RAPT_FOR_EACH_TARGET(RAPT_CASE)
#undef RAPT_CASE
    default: break;
  }
  throw Error(std::string("rapt: expected an instruction set of this build, got ") + name_of(isa));
}

template const Kernels<float>& kernels_for(Isa);
template const Kernels<double>& kernels_for(Isa);

namespace {

template <class T>
using ProgramOf = const NormalizerProgram<T>& (*)();

// In the order of the registry.
template <class T>
std::span<const ProgramOf<T>> normalizer_programs(Isa isa) {
  switch (isa) {
#define RAPT_PROGRAM(name) &RAPT_HERE::normalizer_##name<T>,
#define RAPT_CASE(target)                                                            \
  case Isa::target: {                                                                \
    namespace RAPT_HERE = target;                                                    \
    static constexpr ProgramOf<T> list[] = {RAPT_FOR_EACH_NORMALIZER(RAPT_PROGRAM)}; \
    return list;                                                                     \
  }
    RAPT_FOR_EACH_TARGET(RAPT_CASE)
#undef RAPT_CASE
#undef RAPT_PROGRAM
    default: throw Error(std::string("rapt: expected an instruction set of this build, got ") + name_of(isa));
  }
}

}  // namespace

template <class T>
const NormalizerProgram<T>& normalizer_program(Isa isa, const NormalizerDefinition& normalizer) {
  return normalizer_programs<T>(isa)[static_cast<std::size_t>(&normalizer - normalizer_definitions().data())]();
}

template const NormalizerProgram<float>& normalizer_program(Isa, const NormalizerDefinition&);
template const NormalizerProgram<double>& normalizer_program(Isa, const NormalizerDefinition&);

void make_what_calls_share() noexcept {
  try {
    all_mechanisms();
    all_normalizers();
    const Isa isa = active_isa();
    kernels_for<float>(isa);
    kernels_for<double>(isa);
    for (const NormalizerDefinition& normalizer : normalizer_definitions()) {
      normalizer_program<float>(isa, normalizer);
      normalizer_program<double>(isa, normalizer);
    }
  } catch (const std::exception&) {
    // A failure here is reported by the call that needs it.
  }
}

}  // namespace rapt::inline v1
