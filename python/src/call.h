#pragma once

#include <functional>
#include <vector>

#include "options.h"
#include "rapt/attend.h"

namespace rapt::python {

// Runs the engine without Python's lock. Between tasks it looks for signals: Ctrl-C ends a long call.
void run_released(const std::function<void()>& engine);
void install_signal_check();

// Where Python is asked for something while the interpreter ends, versions before 3.14 end the thread by unwinding it
// (abi::__forced_unwind). Destructors may not run then, as they need Python's lock: the thread stays where it is.
[[noreturn]] void stay_forever();

// Counts a call of the engine: the process does not end under one.
class Running {
 public:
  Running();
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

// What Python gives to make arrays with: a function (shape, type name), of the caller's kind.
class Allocator {
 public:
  explicit Allocator(nb::handle allocate) : allocate_(allocate) {}
  // The last `rank` sizes of a shape.
  nb::object operator()(const Shape& shape, int rank, const char* type) const;

 private:
  nb::handle allocate_;
};

// q, k, v and the options of one call, and what its outputs look like.
struct Call {
  // v may be None: then the call has one value of 0 for every key, and no output.
  Call(const ArrayReader& reader, nb::handle q, nb::handle k, nb::handle v, nb::handle options);

  Inputs inputs{};
  std::vector<Array> arrays;  // q, k, v…
  Options options;
  bool has_values = true;
  bool is_list = false;  // v was a list or a tuple
  int rank = 4;          // of the outputs: the largest of q, k and v
  std::int64_t batch = 1, heads = 1, queries = 0, keys = 0;

  Dtype compute_type() const { return is_double ? Dtype::f64 : Dtype::f32; }
  Dtype output_type = Dtype::f32;
  bool is_double = false;

  // lse and the rows of partial results: without the last dimension, [B, H, Sq].
  nb::object make_rows(const ArrayReader& reader, const Allocator& allocate, const std::string& name,
                       std::vector<Array>& keep, View& view, std::int64_t columns = 0) const;
};

View read_output(const ArrayReader& reader, nb::handle object, const std::string& name, std::vector<Array>& keep);

}  // namespace rapt::python
