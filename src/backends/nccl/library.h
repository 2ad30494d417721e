#pragma once

#include <nccl.h>

// The functions of libnccl.so.2 that are used here, loaded on first use.
namespace rapt::inline v1::nccl {

struct Library {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  const char* (*last_error)(ncclComm_t) = nullptr;  // since 2.13; null: not there
};

// Throws rapt::Error if there is none.
const Library& library();

// Throws rapt::Error: "nccl: WHAT: …".
void check(ncclResult_t status, const char* what);

}  // namespace rapt::inline v1::nccl
