#pragma once

#include <nanobind/nanobind.h>

#include <string>

// Rapt's calls on the OpenMP threads that PyTorch computes on: two pools would fight for the processors.
namespace rapt::python {

namespace nb = nanobind;

// Looks for the OpenMP runtime that is loaded, first in `folder`, and works on its threads from then on. False: there is none.
// `count` is asked for their number at every call: OpenMP's own belongs to a thread, and is lost where a process is forked.
bool use_openmp(const std::string& folder, nb::object count);
void use_own_threads();

// What `count` says; 0: none were given. Asks Python, and needs its lock.
int lent_threads();

}  // namespace rapt::python
