// The kernels of a custom mechanism: the only file that nvcc compiles.
#include <rapt/cuda/mechanism.cuh>

#include "../new_mechanism/kerple.h"

void add_kerple_kernels() { rapt::cuda::add_kernels<rapt::mechanisms::Kerple>(); }
