#ifndef RAPT_MPI_H
#define RAPT_MPI_H

#include <mpi.h>

#include "rapt/c.h"

#ifdef __cplusplus
#include <memory>

#include "rapt/communicator.h"

// rapt::mpi, a separate library: attend() over processes through MPI.
namespace rapt::inline v1 {

// The processes of an MPI communicator, which must outlive the result; all of them make the call. MPI is initialised by
// the program, with MPI_THREAD_FUNNELED or more; messages start and end on the thread that calls attend().
RAPT_API std::unique_ptr<Communicator> mpi_communicator(MPI_Comm communicator);

}  // namespace rapt::inline v1

extern "C" {
#endif

/* The same for C. NULL if MPI fails; free it before MPI is finalised. */
RAPT_API rapt_communicator* rapt_mpi_communicator(MPI_Comm communicator);
RAPT_API void rapt_mpi_communicator_free(rapt_communicator* communicator);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RAPT_MPI_H */
