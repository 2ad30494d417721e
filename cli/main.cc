#include "backends/mpi/session.h"
#include "cli/run.h"

int main(int argc, char** argv) { return rapt::mpi::run(argc, argv, &rapt::cli::run); }
