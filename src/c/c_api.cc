#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "c/status.h"
#include "distributed/call.h"
#include "rapt/attend.h"
#include "rapt/c.h"
#include "rapt/distributed.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "rapt/openmp.h"
#include "rapt/partial.h"
#include "rapt/plan.h"
#include "rapt/registry.h"
#include "rapt/threads.h"

// Calls from C: every struct is checked and becomes the C++ one. No exception leaves this file.

struct rapt_plan {
  rapt::Plan plan;
  std::size_t sets, outs;  // how many arrays v and out are
};

struct rapt_saved {
  rapt::Saved rows;
};

namespace {

using rapt::Error;
using rapt::c::contained;
using rapt::c::guarded;

// What one call reads its arguments with: the function's name goes into every message.
class Reader {
 public:
  explicit Reader(const char* function) : function_(function) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(std::string(function_) + ": " + what); }

  void need(const void* pointer, const std::string& name) const {
    if (pointer == nullptr) fail(name + ": expected a pointer, got NULL");
  }

  // `count` numbers or structs; a pointer is needed only where there are some.
  void need(const void* pointer, std::size_t count, const std::string& name) const {
    if (pointer == nullptr && count > 0) fail(name + ": expected an array of " + std::to_string(count) + ", got NULL");
  }

  // A struct of an older caller is shorter: the rest is zero. A newer caller's may be longer, as long as what this
  // version does not know is not used.
  template <class S>
  S sized(const S& given, std::size_t smallest, const std::string& name) const {
    const std::size_t size = given.struct_size;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
    if (size < smallest)
      fail(name + ": struct_size: expected sizeof(rapt_" + name + "), " + std::to_string(sizeof(S)) + ", got " +
           std::to_string(size));

    if (size > kLargestStruct ||
        std::any_of(bytes + std::min(size, sizeof(S)), bytes + size, [](unsigned char b) { return b != 0; }))
      fail(name + ": struct_size: expected " + std::to_string(sizeof(S)) + ", got " + std::to_string(size) +
           ": something is set that Rapt " + rapt_version() + " does not have");

    S own;
    std::memset(&own, 0, sizeof(own));
    std::memcpy(&own, &given, std::min(size, sizeof(S)));
    return own;
  }

  rapt::View view(const rapt_array& array, const std::string& name) const {
    // An array without elements may have no memory; one that is not given has no shape either.
    if (array.data == nullptr && to_shape(array.shape) == rapt::Shape{}) return {};
    if (array.dtype < RAPT_F32 || array.dtype > RAPT_F16)
      fail(name + ": expected dtype 0 (f32), 1 (f64), 2 (bf16) or 3 (f16), got " + std::to_string(array.dtype));

    return {array.data, static_cast<rapt::Dtype>(array.dtype), to_shape(array.shape), to_shape(array.strides),
            device(array, name)};
  }

  rapt::Device device(const rapt_array& array, const std::string& name) const {
    if (array.device < RAPT_CPU || array.device > RAPT_CUDA)
      fail(name + ": expected device 0 (cpu) or 1 (cuda), got " + std::to_string(array.device));
    return {static_cast<rapt::Device::Kind>(array.device), array.device_index};
  }

  std::vector<rapt::View> views(const rapt_array* arrays, std::size_t count, const std::string& name) const {
    need(arrays, count, name);
    std::vector<rapt::View> list;
    for (std::size_t n = 0; n < count; ++n) list.push_back(view(arrays[n], name + "[" + std::to_string(n) + "]"));
    return list;
  }

  std::vector<rapt::ConstView> const_views(const rapt_array* arrays, std::size_t count, const std::string& name) const {
    const std::vector<rapt::View> list = views(arrays, count, name);
    return {list.begin(), list.end()};
  }

  template <class E>
  E choice(std::int32_t value, E last, const std::string& name) const {
    if (value < 0 || value > static_cast<std::int32_t>(last))
      fail(name + ": expected 0 to " + std::to_string(static_cast<int>(last)) + " (see rapt/c.h), got " +
           std::to_string(value));

    return static_cast<E>(value);
  }

  std::vector<std::int64_t> numbers(const std::int64_t* first, std::size_t count, const std::string& name) const {
    need(first, count, name);
    return std::vector<std::int64_t>(first, first + count);
  }

  rapt::Inputs inputs(const rapt_inputs* given) const {
    need(given, "inputs");
    const rapt_inputs in = sized(*given, offsetof(rapt_inputs, v_count) + sizeof(std::size_t), "inputs");
    return {view(in.q, "q"), view(in.k, "k"), const_views(in.v, in.v_count, "v")};
  }

  std::vector<rapt::Partial> partials(const rapt_partial* given, std::size_t count) const {
    need(given, count, "parts");
    std::vector<rapt::Partial> list;
    for (std::size_t n = 0; n < count; ++n)
      list.push_back({view(given[n].out, "parts: out"), view(given[n].row_max, "parts: row_max"),
                      view(given[n].row_sum, "parts: row_sum")});
    return list;
  }

  rapt::Outputs outputs(const rapt_outputs* given) const;
  rapt::PlanArrays plan_arrays(const rapt_plan_arrays* given, const rapt_plan& plan) const;
  rapt::Gradients gradients(const rapt_gradients* given) const;
  rapt::AttendOptions options(const rapt_options* given) const;

 private:
  // Larger than any version's structs: such a size was never written by a caller that meant it.
  static constexpr std::size_t kLargestStruct = 4096;

  static rapt::Shape to_shape(const std::int64_t* sizes) { return {sizes[0], sizes[1], sizes[2], sizes[3]}; }

  rapt::Statistics statistics(const rapt_statistics& given) const;
  rapt::Mask mask(const rapt_options& o) const;
  std::vector<rapt::NamedView> parameters(const rapt_parameter* given, std::size_t count,
                                          const std::string& kind) const;
  rapt::Score score(const rapt_options& o) const;

  const char* function_;
};

rapt::Statistics Reader::statistics(const rapt_statistics& given) const {
  const rapt_statistics s = sized(given, offsetof(rapt_statistics, grid) + sizeof(s.grid), "statistics");
  rapt::Statistics result;
  result.entropy = view(s.entropy, "statistics: entropy");
  result.argmax = s.argmax;
  result.position = view(s.position, "statistics: position");
  result.covariance = view(s.covariance, "statistics: covariance");
  result.top_k = s.top_k;
  result.top_indices = s.top_indices;
  result.top_weights = view(s.top_weights, "statistics: top_weights");
  result.grid = {s.grid[0], s.grid[1]};
  return result;
}

rapt::Outputs Reader::outputs(const rapt_outputs* given) const {
  need(given, "outputs");
  const rapt_outputs o = sized(*given, offsetof(rapt_outputs, saved) + sizeof(void*), "outputs");
  rapt::Outputs result;
  result.out = views(o.out, o.out_count, "out");
  result.lse = view(o.lse, "lse");
  need(o.weights, o.weights_count, "weights");
  for (std::size_t n = 0; n < o.weights_count; ++n) {
    const rapt_weights_request& w = o.weights[n];
    result.weights.push_back(
        {w.batch, w.head, w.row_begin, w.row_end, view(w.out, "weights[" + std::to_string(n) + "]")});
  }
  if (o.statistics != nullptr) result.statistics = statistics(*o.statistics);
  result.saved = o.saved != nullptr ? &o.saved->rows : nullptr;
  result.row_max = view(o.row_max, "row_max");
  result.row_sum = view(o.row_sum, "row_sum");
  return result;
}

rapt::Gradients Reader::gradients(const rapt_gradients* given) const {
  need(given, "gradients");
  const rapt_gradients g = sized(*given, offsetof(rapt_gradients, parameter_count) + sizeof(std::size_t), "gradients");
  rapt::Gradients result;
  result.q = view(g.q, "gradient of q");
  result.k = view(g.k, "gradient of k");
  result.v = views(g.v, g.v_count, "gradient of v");
  result.bias = view(g.bias, "gradient of bias");
  need(g.parameters, g.parameter_count, "gradients of parameters");
  for (std::size_t n = 0; n < g.parameter_count; ++n) {
    need(g.parameters[n].name, "gradient of parameter " + std::to_string(n) + ": name");
    const std::string name = g.parameters[n].name;
    result.parameters.push_back({name, view(g.parameters[n].value, "gradient of parameter '" + name + "'")});
  }
  return result;
}

rapt::Mask Reader::mask(const rapt_options& o) const {
  rapt::Mask mask;
  mask.causal = choice(o.causal, rapt::Causal::bottom_right, "causal");
  if (o.has_window != 0) mask.window = rapt::Window{o.window_left, o.window_right};
  mask.key_lengths = numbers(o.key_lengths, o.key_length_count, "key_lengths");
  mask.query_starts = numbers(o.query_starts, o.start_count, "query_starts");
  mask.key_starts = numbers(o.key_starts, o.start_count, "key_starts");
  if (o.mask.data != nullptr) {
    if (o.mask.dtype != RAPT_BOOL)
      fail("mask: expected dtype 4 (RAPT_BOOL), bytes that are nonzero where to attend, got " +
           std::to_string(o.mask.dtype));

    mask.dense = {static_cast<const std::uint8_t*>(o.mask.data), to_shape(o.mask.shape), to_shape(o.mask.strides),
                  device(o.mask, "mask")};
  }
  return mask;
}

std::vector<rapt::NamedView> Reader::parameters(const rapt_parameter* given, std::size_t count,
                                                const std::string& kind) const {
  need(given, count, kind + "s");
  std::vector<rapt::NamedView> list;
  for (std::size_t n = 0; n < count; ++n) {
    need(given[n].name, kind + " " + std::to_string(n) + ": name");
    const std::string name = given[n].name;
    list.push_back({name, view(given[n].value, kind + " '" + name + "'")});
  }
  return list;
}

rapt::Score Reader::score(const rapt_options& o) const {
  rapt::Score score;
  const bool is_formula = o.formula != nullptr || o.pair != nullptr || o.visible != nullptr;
  if (is_formula && o.score != nullptr)
    throw Error("formula: expected none where options.score names a mechanism, got one beside '" +
                std::string(o.score) + "'");
  if (is_formula)
    score = rapt::formula(o.formula != nullptr ? o.formula : "",
                          {.pair = o.pair != nullptr ? o.pair : "", .visible = o.visible != nullptr ? o.visible : ""});
  if (o.score != nullptr) score.mechanism = &rapt::mechanism(o.score);
  score.parameters = parameters(o.parameters, o.parameter_count, "parameter");
  need(o.settings, o.setting_count, "settings");
  for (std::size_t n = 0; n < o.setting_count; ++n) {
    need(o.settings[n].name, "setting " + std::to_string(n) + ": name");
    score.settings.push_back({o.settings[n].name, o.settings[n].value});
  }
  score.grid = {o.grid[0], o.grid[1]};
  return score;
}

rapt::AttendOptions Reader::options(const rapt_options* given) const {
  rapt::AttendOptions result;
  if (given == nullptr) return result;
  const rapt_options o = sized(*given, offsetof(rapt_options, path) + sizeof(o.path), "options");
  result.score = score(o);
  if (o.has_scale != 0) result.scale = o.scale;
  result.softcap = o.softcap;
  result.bias = view(o.bias, "bias");
  result.mask = mask(o);
  const auto last = static_cast<rapt::Normalizer>(rapt::all_normalizers().size() - 1);
  result.normalizer = choice(o.normalizer, last, "normalizer");
  result.normalizer_parameters =
      parameters(o.normalizer_parameters, o.normalizer_parameter_count, "normalizer parameter");
  result.first_query = numbers(o.first_query, o.first_query_count, "first_query");
  if (o.has_first_key != 0) result.first_key = o.first_key;
  result.rotary.dims = o.rotary_dims;
  if (o.rotary_base != 0) result.rotary.base = o.rotary_base;
  result.rotary.interleaved = o.rotary_interleaved != 0;
  result.stream = o.stream;
  result.threads = o.threads;
  result.path = choice(o.path, rapt::Path::reference, "path");
  return result;
}

rapt::PlanArrays Reader::plan_arrays(const rapt_plan_arrays* given, const rapt_plan& plan) const {
  if (given == nullptr) return {};
  const rapt_plan_arrays a =
      sized(*given, offsetof(rapt_plan_arrays, first_query_count) + sizeof(a.first_query_count), "plan_arrays");
  need(a.key_lengths, a.key_length_count, "key_lengths");
  need(a.first_query, a.first_query_count, "first_query");
  rapt::PlanArrays result;
  result.q = a.q;
  result.k = a.k;
  if (a.v != nullptr) result.v = {a.v, plan.sets};
  if (a.out != nullptr) result.out = {a.out, plan.outs};
  result.lse = a.lse;
  result.row_max = a.row_max;
  result.row_sum = a.row_sum;
  result.bias = a.bias;
  result.mask = static_cast<const std::uint8_t*>(a.mask);
  result.key_lengths = {a.key_lengths, a.key_length_count};
  result.first_query = {a.first_query, a.first_query_count};
  return result;
}

template <class S>
void init(S* given, std::size_t struct_size) noexcept {
  if (given == nullptr || struct_size < sizeof(std::size_t)) return;
  std::memset(given, 0, struct_size);
  given->struct_size = struct_size;
}

// Unsigned, so that absurd sizes wrap around here and are refused by the call that reads them.
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// The caller's functions as the library's class.
class CallersNetwork final : public rapt::Communicator {
 public:
  CallersNetwork(const Reader& reader, rapt_communicator* given) : given_(given) {
    reader.need(given, "communicator");
    reader.sized(*given, offsetof(rapt_communicator, bandwidth) + sizeof(given->bandwidth), "communicator");
    if (given->start_send == nullptr || given->start_receive == nullptr || given->test == nullptr)
      throw rapt::Error("communicator: expected three functions, got NULL");
    if (given->size < 1 || given->rank < 0 || given->rank >= given->size)
      throw rapt::Error("communicator: rank: expected 0 to " + std::to_string(given->size - 1) + ", got " +
                        std::to_string(given->rank));
    if (given->bandwidth > 0) bandwidth_ = given->bandwidth;
  }
  ~CallersNetwork() override {
    if (bandwidth_ > 0) given_->bandwidth = bandwidth_;
  }
  CallersNetwork(const CallersNetwork&) = delete;
  CallersNetwork& operator=(const CallersNetwork&) = delete;

  int rank() const override { return given_->rank; }
  int size() const override { return given_->size; }
  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    return done(given_->start_send(given_->context, data, bytes, to, tag), "start_send");
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    return done(given_->start_receive(given_->context, data, bytes, from, tag), "start_receive");
  }
  bool test(int message) override { return done(given_->test(given_->context, message), "test") != 0; }

 private:
  static int done(int status, const char* function) {
    if (status < 0)
      throw rapt::Error(std::string("communicator: ") + function + ": expected 0 or more, got " +
                        std::to_string(status));
    return status;
  }

  rapt_communicator* given_;
};

// What a call over processes is given.
struct DistributedArguments {
  rapt::Inputs inputs;
  rapt::Outputs outputs;
  std::vector<rapt::ConstView> out, grad_out;
  rapt::Gradients gradients;
  rapt::AttendOptions options;
  rapt::Distribution distribution = rapt::Distribution::automatic;
};

// The others wait for this process: what it cannot read ends the call in all of them.
template <class F>
void read_together(rapt::Communicator& network, const F& read) {
  try {
    read();
  } catch (const std::exception& error) {
    rapt::distributed::refuse(error.what(), network);
    throw;
  }
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

int rapt_share_of(int64_t length, int32_t rank, int32_t size, rapt_share* share) {
  return guarded([&] {
    Reader("rapt_share_of").need(share, "share");
    const rapt::Share found = rapt::share_of(length, rank, size);
    *share = {found.early_begin, found.early_end, found.late_begin, found.late_end};
  });
}

int rapt_attend_distributed(const rapt_inputs* inputs, const rapt_outputs* outputs, const rapt_options* options,
                            rapt_communicator* communicator, int32_t distribution) {
  return guarded([&] {
    const Reader reader("rapt_attend_distributed");
    CallersNetwork network(reader, communicator);
    DistributedArguments read;
    read_together(network, [&] {
      read.inputs = reader.inputs(inputs);
      read.outputs = reader.outputs(outputs);
      read.options = reader.options(options);
      read.distribution = reader.choice(distribution, rapt::Distribution::heads, "distribution");
    });
    rapt::attend(read.inputs, read.outputs, read.options, network, {read.distribution, nullptr});
  });
}

int rapt_attend_backward_distributed(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                                     const rapt_saved* saved, const rapt_gradients* gradients,
                                     const rapt_options* options, rapt_communicator* communicator,
                                     int32_t distribution) {
  return guarded([&] {
    const Reader reader("rapt_attend_backward_distributed");
    CallersNetwork network(reader, communicator);
    DistributedArguments read;
    read_together(network, [&] {
      read.inputs = reader.inputs(inputs);
      read.out = reader.const_views(out, read.inputs.v.size(), "out");
      read.grad_out = reader.const_views(grad_out, read.inputs.v.size(), "grad_out");
      read.gradients = reader.gradients(gradients);
      read.options = reader.options(options);
      read.distribution = reader.choice(distribution, rapt::Distribution::heads, "distribution");
    });
    rapt::attend_backward(read.inputs, read.out, read.grad_out, saved != nullptr ? &saved->rows : nullptr,
                          read.gradients, read.options, network, {read.distribution, nullptr});
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
