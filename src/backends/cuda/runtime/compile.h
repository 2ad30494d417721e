#pragma once

#include <span>
#include <string>
#include <string_view>

// Compiles kernels from source by NVRTC, which is found at run time. Nothing here needs a device.
namespace rapt::inline v1::cuda {

// A file that kernels include, by the name that they include it under. Written by the build.
struct Header {
  const char* name;
  const char* text;
};
std::span<const Header> kernel_headers();

struct CompiledKernel {
  std::string name;   // as the loader knows it
  std::string image;  // for one architecture, or PTX
  bool kept = false;  // it came from the disk cache
};

// Empty if there is a compiler.
std::string compiler_refusal();

// hooks: the source of struct Formula. kernel: as in start_kernel(). architecture: sm_90a, or compute_90a for PTX.
// Cached on disk, if that is writable. Throws rapt::Error with the compiler's messages.
CompiledKernel compile_kernel(std::string_view hooks, std::string_view kernel, std::string_view architecture);

// The directory of the disk cache: RAPT_KERNEL_CACHE, else in the user's cache directory; empty: none.
std::string kernel_folder();

}  // namespace rapt::inline v1::cuda
