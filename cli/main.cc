#include "cli/run.h"

int main(int argc, char** argv) { return rapt::cli::run(argc, argv); }
