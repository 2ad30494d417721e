#pragma once

#include <nanobind/nanobind.h>

namespace rapt::python {

// rapt._core.Plan: a call that is checked once and run many times.
void bind_plan(nanobind::module_& m);

}  // namespace rapt::python
