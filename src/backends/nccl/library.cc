#include "backends/nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "rapt/error.h"

namespace rapt::inline v1::nccl {
namespace {

void* open_library() {
  // One that is already loaded, such as PyTorch's, is found by its name.
  if (const char* own = std::getenv("RAPT_NCCL_LIBRARY")) return dlopen(own, RTLD_NOW | RTLD_LOCAL);
  return dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
}

struct Found {
  Library library;
  std::string refusal;
};

Found find_library() {
  Found found;
  void* const handle = open_library();
  if (handle == nullptr) {
    const char* why = dlerror();
    found.refusal = "nccl: expected libnccl.so.2 where the loader finds it (RAPT_NCCL_LIBRARY may name it), got: " +
                    std::string(why ? why : "nothing");
    return found;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr && found.refusal.empty())
      found.refusal = std::string("nccl: expected NCCL 2.7 or later, got a library without ") + name;
  };
  Library& all = found.library;
  find(all.get_unique_id, "ncclGetUniqueId");
  find(all.init_rank, "ncclCommInitRank");
  find(all.destroy, "ncclCommDestroy");
  find(all.abort, "ncclCommAbort");
  find(all.async_error, "ncclCommGetAsyncError");
  find(all.error_string, "ncclGetErrorString");
  find(all.group_start, "ncclGroupStart");
  find(all.group_end, "ncclGroupEnd");
  find(all.send, "ncclSend");
  find(all.receive, "ncclRecv");
  all.last_error = reinterpret_cast<const char* (*)(ncclComm_t)>(dlsym(handle, "ncclGetLastError"));
  return found;
}

const Found& found_library() {
  static const Found found = find_library();
  return found;
}

}  // namespace

const Library& library() {
  const Found& found = found_library();
  if (!found.refusal.empty()) throw Error(found.refusal);
  return found.library;
}

void check(ncclResult_t status, const char* what) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  const Library& all = library();
  std::string text = std::string("nccl: ") + what + ": " + all.error_string(status);
  const char* more = all.last_error ? all.last_error(nullptr) : nullptr;
  if (more && *more) text += std::string(" (") + more + ")";
  throw Error(text);
}

}  // namespace rapt::inline v1::nccl
