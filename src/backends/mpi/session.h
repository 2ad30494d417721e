#pragma once

#include <functional>
#include <string>

#include "rapt/communicator.h"

// A program that mpirun may have started as several processes.
namespace rapt::inline v1::mpi {

// The processes of this run; null without a launcher.
Communicator* world();
// This process's number among those of its machine.
int local_rank();

// Runs the program in all processes, or alone where it was not started by mpirun. Process 0 alone writes to the
// terminal. If a process fails by itself, dies, hangs, or is not heard from for kSilence seconds, the others end too,
// and a sentence says why; so does a launcher that still waits.
int run(int argc, const char* const* argv, const std::function<int(int, const char* const*)>& program);

inline constexpr double kSilence = 15;

// How many processes the environment says were started; 0: there was no launcher; kSome: only MPI knows how many.
int launched();
inline constexpr int kSome = -1;

}  // namespace rapt::inline v1::mpi
