#pragma once

// Kernels start none themselves.
using cudaStream_t = struct CUstream_st*;
