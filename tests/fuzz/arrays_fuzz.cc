// Files of arrays: reading stays within the file, and bad files are refused with an error.

#include <cstdint>
#include <string_view>

#include "rapt/error.h"
#include "tensor/npy.h"
#include "tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The first byte says which reader.
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 0) rapt::parse_npy(bytes, "fuzz");
    else rapt::parse_safetensors(bytes, "fuzz");
  } catch (const rapt::Error&) {
  }
  return 0;
}
