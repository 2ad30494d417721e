#include <iostream>

#include "backends/mpi/session.h"

// For builds without MPI.
namespace rapt::inline v1::mpi {

Communicator* world() { return nullptr; }
int local_rank() { return 0; }

int run(int argc, const char* const* argv, const std::function<int(int, const char* const*)>& program) {
  const int processes = launched();
  if (processes > 1 || processes == kSome) {
    std::cerr << "rapt: expected one process, as this build has no MPI (configure with RAPT_MPI=ON), got "
              << (processes == kSome ? "some" : std::to_string(processes)) << " from a launcher" << std::endl;
    return 2;
  }
  return program(argc, argv);
}

}  // namespace rapt::inline v1::mpi
