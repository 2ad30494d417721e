#pragma once

#include <nanobind/nanobind.h>

namespace rapt::python {

// What rapt.jax registers with XLA: handlers that run without Python, on XLA's threads and streams.
void bind_jax(nanobind::module_& m);

}  // namespace rapt::python
