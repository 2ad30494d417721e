#pragma once

#include <memory>

#include <mpi.h>

#include "rapt/communicator.h"

// rapt::mpi, a library of its own: what connects attend() over processes with MPI.
namespace rapt::inline v1 {

// The processes of an MPI communicator, which must outlive the result; all of them make the call. MPI is initialised by the
// program, with MPI_THREAD_FUNNELED or more; messages start and end on the thread that calls attend().
RAPT_API std::unique_ptr<Communicator> mpi_communicator(MPI_Comm communicator);

}  // namespace rapt::inline v1
