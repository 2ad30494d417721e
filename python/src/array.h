#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "rapt/mask.h"
#include "rapt/view.h"

// Arrays of other libraries as views. Nothing is copied, but where the engine cannot read an array as it lies; then Python is
// asked for a copy, and says so once.
namespace rapt::python {

namespace nb = nanobind;

// A view with what keeps its memory: the object, and its buffer while it is exported.
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept;
  Array& operator=(Array&&) = delete;
  ~Array();

  explicit operator bool() const { return given_; }
  const ConstView& view() const { return view_; }
  View writable(const std::string& name) const;
  int rank() const { return rank_; }

 private:
  friend class ArrayReader;
  ConstView view_{};
  int rank_ = 0;
  bool given_ = false;
  bool booleans_ = false;
  bool read_only_ = false;
  bool exported_ = false;
  int least_rank_ = 1;
  Py_buffer buffer_{};
  nb::object keep_;
};

// What one call reads its arrays with: the operation's name goes into every message.
class ArrayReader {
 public:
  explicit ArrayReader(const char* operation, bool may_copy = true) : operation_(operation), may_copy_(may_copy) {}

  // Numbers: NumPy's, PyTorch's, or of anything with a buffer or DLPack; one to four dimensions.
  Array read(nb::handle object, const std::string& name) const;
  // What is written to, of any rank: never a copy, which the caller would not see.
  Array read_in_place(nb::handle object, const std::string& name) const;
  // Numbers that may also be given as a Python number or a list of them.
  Array read_parameter(nb::handle object, const std::string& name) const;
  BoolView read_mask(nb::handle object, const std::string& name, std::vector<Array>& keep) const;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_type(const std::string& what) const;
  const char* operation() const { return operation_; }

 private:
  struct TorchType {
    const char* name;
    char kind;
    int bits;
    PyObject* object = nullptr;
  };
  const TorchType& torch_type(nb::handle dtype, const std::string& name) const;
  Array read_any(nb::handle object, const std::string& name, bool booleans, bool may_copy, int least_rank) const;
  bool from_buffer(nb::handle object, const std::string& name, Array& array) const;
  bool from_exchange(nb::handle object, const std::string& name, Array& array) const;
  void set_dlpack_type(nb::dlpack::dtype type, const std::string& name, Array& array) const;
  void set_dlpack_device(int device, int index, const std::string& name, Array& array) const;
  bool from_torch(nb::handle object, const std::string& name, Array& array) const;
  bool from_bfloat16(nb::handle object, const std::string& name, Array& array) const;
  bool from_cuda_interface(nb::handle object, const std::string& name, Array& array) const;
  bool from_dlpack(nb::handle object, const std::string& name, Array& array) const;
  void check_rank(int rank, const std::string& name, const Array& array) const;
  void set_type(char kind, int bits, const std::string& name, const std::string& got, Array& array) const;

  const char* operation_;
  bool may_copy_;
};

// NumPy's name of a type, as allocators take it.
const char* numpy_name(Dtype dtype);

}  // namespace rapt::python
