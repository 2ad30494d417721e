#include <algorithm>
#include <cstdlib>
#include <string>

#include "backends/mpi/session.h"

namespace rapt::inline v1::mpi {

// Open MPI, MPICH and Intel MPI, and srun with their plug-ins. srun's own count is not asked: it starts plain programs too.
int launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const char* text = std::getenv(name)) return std::max(1, std::atoi(text));
  return 0;
}

}  // namespace rapt::inline v1::mpi
