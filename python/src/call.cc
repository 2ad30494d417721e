#include "call.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/threads.h"

namespace rapt::python {
namespace {

struct Interrupted {};
struct Ending {};

constexpr std::chrono::milliseconds kBetweenLooks{50};
thread_local bool in_call = false;
thread_local std::chrono::steady_clock::time_point next_look;

std::atomic<int> running{0};  // calls of the engine, of all threads
std::atomic<bool> ending{false};
std::atomic<unsigned long> main_thread{0};  // as Python counts them

// Only the thread that called looks, and only Python's main thread gets signals. Daemon threads are not let go on when
// the interpreter is gone: what they would touch next is gone too.
void look_for_signals() {
  if (!in_call) return;
  if (ending.load(std::memory_order_relaxed)) throw Ending{};
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look) return;
  next_look = now + kBetweenLooks;
  if (PyThread_get_thread_ident() != main_thread.load(std::memory_order_relaxed)) return;
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw Interrupted{};
}

// Python has ended, and no call can start any more: those that run are let end before the engine's own memory goes.
void wait_for_calls() {
  ending.store(true);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (running.load() > 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Takes Python's lock again. Where the interpreter ends, that does not return.
void restore(PyThreadState* state) {
  if (ending.load()) stay_forever();
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {
    stay_forever();
  }
}

// Tables that are added to the output alone (shaw's values) are as wide as the values, so without these they are not read.
void drop_output_tables(AttendOptions& options) {
  const MechanismInfo* mechanism = options.score.mechanism;
  if (mechanism == nullptr) return;
  std::erase_if(options.score.parameters, [&](const auto& given) {
    const auto specs = mechanism->parameters();
    return std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
      return spec.name == given.name && spec.role == Role::relative_output;
    });
  });
}

const float kZeroF32 = 0;
const double kZeroF64 = 0;

}  // namespace

void stay_forever() {
  for (;;) pause();
}

Running::Running() { running.fetch_add(1); }
Running::~Running() { running.fetch_sub(1); }

void install_signal_check() {
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  pthread_atfork(nullptr, nullptr, [] {  // the thread that forks is the child's main thread, and its only one
    main_thread = PyThread_get_thread_ident();
    running = 0;
  });
  Py_AtExit(wait_for_calls);
  set_task_hook(look_for_signals);
}

void run_released(const std::function<void()>& engine) {
  PyThreadState* const state = PyEval_SaveThread();
  std::exception_ptr error;
  bool interrupted = false;
  try {
    const Running counted;
    in_call = true;
    next_look = std::chrono::steady_clock::now() + kBetweenLooks;
    engine();
  } catch (const Interrupted&) {
    interrupted = true;
  } catch (...) {
    error = std::current_exception();
  }
  in_call = false;
  restore(state);
  if (interrupted) throw nb::python_error();
  if (error) std::rethrow_exception(error);
}

nb::object Allocator::operator()(const Shape& shape, int rank, const char* type) const {
  nb::object sizes = nb::steal(PyTuple_New(rank));
  for (int n = 0; n < rank; ++n)
    PyTuple_SetItem(sizes.ptr(), n, PyLong_FromLongLong(shape[static_cast<std::size_t>(4 - rank + n)]));
  try {
    return allocate_(sizes, type);
  } catch (const abi::__forced_unwind&) {
    stay_forever();
  }
}

View read_output(const ArrayReader& reader, nb::handle object, const std::string& name, std::vector<Array>& keep) {
  keep.push_back(reader.read_in_place(object, name));
  return keep.back().writable(std::string(reader.operation()) + ": " + name);
}

Call::Call(const ArrayReader& reader, nb::handle q, nb::handle k, nb::handle v, nb::handle packed)
    : options(reader, packed) {
  arrays.reserve(4);
  const auto add = [&](nb::handle object, const std::string& name) {
    arrays.push_back(reader.read(object, name));
    const Array& array = arrays.back();
    if (array.rank() < 2) reader.fail(name + ": expected two to four dimensions, got " + std::to_string(array.rank()));
    is_double = is_double || array.view().dtype == Dtype::f64;
    return array.view();
  };
  inputs.q = add(q, "q");
  inputs.k = add(k, "k");
  is_list = PyList_Check(v.ptr()) || PyTuple_Check(v.ptr());
  has_values = !v.is_none();
  if (is_list) {
    const nb::sequence sets = nb::borrow<nb::sequence>(v);
    std::size_t n = 0;
    for (nb::handle set : sets) {
      inputs.v.push_back(add(set, n == 0 ? "v" : "v[" + std::to_string(n) + "]"));
      ++n;
    }
    if (inputs.v.empty()) reader.fail("v: expected at least one value set, got none");
  } else if (has_values) {
    inputs.v.push_back(add(v, "v"));
  }
  // A size of 1 is repeated; any other is that of all, 0 included.
  const auto widen = [](std::int64_t& size, std::int64_t own) { size = size == 1 ? own : size; };
  rank = 2;
  std::int64_t most_heads = inputs.q.shape[1];
  batch = inputs.q.shape[0];
  bool same = true;
  for (const Array& array : arrays) {
    rank = std::max(rank, array.rank());
    widen(batch, array.view().shape[0]);
    widen(most_heads, array.view().shape[1]);
    same = same && array.view().dtype == inputs.q.dtype;
  }
  heads = inputs.q.shape[1] == 1 ? most_heads : inputs.q.shape[1];
  queries = inputs.q.shape[2];
  keys = inputs.k.shape[2];
  output_type = same ? inputs.q.dtype : compute_type();
  if (!has_values) drop_output_tables(options.value);
  if (!has_values && inputs.k.device != Device{}) {
    // Nothing of the result is read: a column of k is a value that lies on the device.
    inputs.v.push_back(inputs.k);
    inputs.v.back().shape[3] = 1;
  } else if (!has_values) {
    const void* zero = is_double ? static_cast<const void*>(&kZeroF64) : &kZeroF32;
    inputs.v.push_back({zero, compute_type(), {1, 1, keys, 1}, {0, 0, 0, 1}, inputs.q.device});
  }
}

nb::object Call::make_rows(const ArrayReader& reader, const Allocator& allocate, const std::string& name,
                           std::vector<Array>& keep, View& view, std::int64_t columns) const {
  const bool wide = columns > 0;
  nb::object object = wide ? allocate({batch, heads, queries, columns}, rank, numpy_name(compute_type()))
                           : allocate({1, batch, heads, queries}, rank - 1, numpy_name(compute_type()));
  keep.push_back(reader.read_in_place(object, name));
  view = keep.back().writable(name);
  view.shape = {batch, heads, queries, wide ? columns : 1};
  view.strides = contiguous_strides(view.shape);
  return object;
}

}  // namespace rapt::python
