#include "host_threads.h"

#include <cxxabi.h>

#include "call.h"
#include "rapt/openmp.h"
#include "rapt/threads.h"

namespace rapt::python {
namespace {

PyObject* thread_count = nullptr;  // under Python's lock; never released at the end of the process

}  // namespace

bool use_openmp(const std::string& folder, nb::object count) {
  Py_XDECREF(thread_count);
  thread_count = count.release().ptr();
  return use_openmp_threads(folder);
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
