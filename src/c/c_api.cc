#include <cstring>
#include <string>
#include <vector>

#include "c/reader.h"
#include "c/status.h"
#include "rapt/attend.h"
#include "rapt/c.h"
#include "rapt/openmp.h"
#include "rapt/partial.h"
#include "rapt/plan.h"
#include "rapt/threads.h"

// Calls from C: every struct is checked and becomes the C++ one. No exception leaves this file.

namespace {

using rapt::c::contained;
using rapt::c::guarded;
using rapt::c::Reader;

template <class S>
void init(S* given, std::size_t struct_size) noexcept {
  if (given == nullptr || struct_size < sizeof(std::size_t)) return;
  std::memset(given, 0, struct_size);
  given->struct_size = struct_size;
}

// Unsigned, so that absurd sizes wrap around here; the call that reads them refuses them.
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

#define RAPT_TEXT(x) #x
#define RAPT_VERSION_TEXT(major, minor, patch) RAPT_TEXT(major) "." RAPT_TEXT(minor) "." RAPT_TEXT(patch)

}  // namespace

extern "C" {

void rapt_options_init(rapt_options* options, size_t struct_size) { init(options, struct_size); }
void rapt_inputs_init(rapt_inputs* inputs, size_t struct_size) { init(inputs, struct_size); }
void rapt_statistics_init(rapt_statistics* statistics, size_t struct_size) { init(statistics, struct_size); }
void rapt_outputs_init(rapt_outputs* outputs, size_t struct_size) { init(outputs, struct_size); }
void rapt_gradients_init(rapt_gradients* gradients, size_t struct_size) { init(gradients, struct_size); }
void rapt_plan_arrays_init(rapt_plan_arrays* arrays, size_t struct_size) { init(arrays, struct_size); }

rapt_array rapt_bhsd(const void* data, int32_t dtype, int64_t batch, int64_t heads, int64_t sequence, int64_t dim) {
  return {const_cast<void*>(data),
          dtype,
          RAPT_CPU,
          0,
          {batch, heads, sequence, dim},
          {times(heads, times(sequence, dim)), times(sequence, dim), dim, 1}};
}

rapt_array rapt_bshd(const void* data, int32_t dtype, int64_t batch, int64_t sequence, int64_t heads, int64_t dim) {
  return {const_cast<void*>(data),
          dtype,
          RAPT_CPU,
          0,
          {batch, heads, sequence, dim},
          {times(sequence, times(heads, dim)), dim, times(heads, dim), 1}};
}

rapt_saved* rapt_saved_create(void) {
  rapt_saved* saved = nullptr;
  contained([&] { saved = new rapt_saved; });
  return saved;
}

void rapt_saved_free(rapt_saved* saved) { delete saved; }

int rapt_attend(const rapt_array* q, const rapt_array* k, const rapt_array* v, const rapt_array* out,
                const rapt_options* options) {
  return guarded([&] {
    const Reader reader("rapt_attend");
    reader.need(q, "q");
    reader.need(k, "k");
    reader.need(v, "v");
    reader.need(out, "out");
    rapt::attend(reader.view(*q, "q"), reader.view(*k, "k"), reader.view(*v, "v"), reader.view(*out, "out"),
                 reader.options(options));
  });
}

int rapt_attend_forward(const rapt_inputs* inputs, const rapt_outputs* outputs, const rapt_options* options) {
  return guarded([&] {
    const Reader reader("rapt_attend_forward");
    rapt::attend(reader.inputs(inputs), reader.outputs(outputs), reader.options(options));
  });
}

int rapt_plan_create(const rapt_inputs* inputs, const rapt_outputs* outputs, const rapt_options* options,
                     rapt_plan** plan) {
  return guarded([&] {
    const Reader reader("rapt_plan_create");
    reader.need(plan, "plan");
    *plan = nullptr;
    const rapt::Inputs in = reader.inputs(inputs);
    const rapt::Outputs out = reader.outputs(outputs);
    *plan = new rapt_plan{rapt::Plan(in, out, reader.options(options)), in.v.size(), out.out.size()};
  });
}

int rapt_plan_run(rapt_plan* plan, const rapt_plan_arrays* arrays) {
  return guarded([&] {
    const Reader reader("rapt_plan_run");
    reader.need(plan, "plan");
    plan->plan.run(reader.plan_arrays(arrays, *plan));
  });
}

void rapt_plan_free(rapt_plan* plan) { delete plan; }

int rapt_attend_backward(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                         const rapt_saved* saved, const rapt_gradients* gradients, const rapt_options* options) {
  return guarded([&] {
    const Reader reader("rapt_attend_backward");
    const rapt::Inputs read = reader.inputs(inputs);
    rapt::attend_backward(
        read, reader.const_views(out, read.v.size(), "out"), reader.const_views(grad_out, read.v.size(), "grad_out"),
        saved != nullptr ? &saved->rows : nullptr, reader.gradients(gradients), reader.options(options));
  });
}

int rapt_attend_backward_lse(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                             const rapt_array* grad_lse, const rapt_saved* saved, const rapt_gradients* gradients,
                             const rapt_options* options) {
  return guarded([&] {
    const Reader reader("rapt_attend_backward_lse");
    const rapt::Inputs read = reader.inputs(inputs);
    reader.need(grad_lse, "grad_lse");
    rapt::attend_backward(read, reader.const_views(out, read.v.size(), "out"),
                          reader.const_views(grad_out, read.v.size(), "grad_out"),
                          saved != nullptr ? &saved->rows : nullptr, reader.gradients(gradients),
                          reader.options(options), reader.view(*grad_lse, "grad_lse"));
  });
}

int rapt_merge(const rapt_partial* parts, size_t part_count, const rapt_partial* merged, const rapt_array* lse,
               int32_t threads) {
  return guarded([&] {
    const Reader reader("rapt_merge");
    reader.need(merged, "merged");
    const rapt::Merged to{reader.view(merged->out, "merged: out"), reader.view(merged->row_max, "merged: row_max"),
                          reader.view(merged->row_sum, "merged: row_sum"),
                          lse != nullptr ? reader.view(*lse, "lse") : rapt::View{}};
    rapt::merge(reader.partials(parts, part_count), to, threads);
  });
}

int rapt_merge_backward(const rapt_partial* parts, size_t part_count, const rapt_partial* merged,
                        const rapt_array* grad_out, const rapt_partial_gradient* gradients, int32_t threads) {
  return guarded([&] {
    const Reader reader("rapt_merge_backward");
    reader.need(merged, "merged");
    reader.need(grad_out, "grad_out");
    reader.need(gradients, part_count, "gradients");
    std::vector<rapt::PartialGradient> to;
    for (std::size_t n = 0; n < part_count; ++n)
      to.push_back({reader.view(gradients[n].out, "gradients: out"), reader.view(gradients[n].lse, "gradients: lse")});
    rapt::merge_backward(reader.partials(parts, part_count), reader.partials(merged, 1)[0],
                         reader.view(*grad_out, "grad_out"), to, threads);
  });
}

const char* rapt_version(void) { return RAPT_VERSION_TEXT(RAPT_VERSION_MAJOR, RAPT_VERSION_MINOR, RAPT_VERSION_PATCH); }

const char* rapt_isa(void) {
  const char* name = "";
  contained([&] { name = rapt::name_of(rapt::active_isa()); });
  return name;
}

int rapt_set_threads(int32_t threads) {
  return guarded([&] { rapt::set_default_threads(threads); });
}

void rapt_use_host_threads(rapt_host_threads run) {
  contained([&] { rapt::use_host_threads(run); });
}

int32_t rapt_use_openmp_threads(const char* folder) {
  int32_t found = 0;
  contained([&] { found = rapt::use_openmp_threads(folder == nullptr ? "" : folder) ? 1 : 0; });
  return found;
}

void rapt_release_workspace(void) {
  contained([] { rapt::release_workspace(); });
}

int32_t rapt_threads(void) {
  int32_t threads = 1;
  contained([&] { threads = rapt::default_threads(); });
  return threads;
}

}  // extern "C"
