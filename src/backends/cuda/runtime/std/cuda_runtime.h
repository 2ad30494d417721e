#pragma once

// Kernels launch none themselves.
using cudaStream_t = struct CUstream_st*;
