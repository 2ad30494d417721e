#pragma once

#include <string>

// Rapt's calls on the OpenMP threads that PyTorch computes on: two pools would fight for the processors.
namespace rapt::python {

// Looks for the OpenMP runtime that is loaded, first in `folder`, and works on its threads from then on. False: there is none.
bool use_openmp(const std::string& folder);
void use_own_threads();

// How many threads the calling thread's OpenMP regions have; 0: Rapt works on its own.
int lent_threads();

}  // namespace rapt::python
