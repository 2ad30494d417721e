#include <algorithm>
#include <cstdlib>
#include <string>

#include "backends/mpi/session.h"

namespace rapt::inline v1::mpi {

int launched() {
  // Open MPI, MPICH and Intel MPI, and srun with PMI-2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const char* text = std::getenv(name)) return std::max(1, std::atoi(text));
  // PMIx gives the rank but not the number of processes, which srun --mpi=pmix does. Without PMIx srun's count is
  // ignored, since it starts plain programs too.
  if (std::getenv("PMIX_RANK") == nullptr && std::getenv("PMIX_NAMESPACE") == nullptr) return 0;
  if (const char* text = std::getenv("SLURM_STEP_NUM_TASKS")) return std::max(1, std::atoi(text));
  return kSome;
}

}  // namespace rapt::inline v1::mpi
