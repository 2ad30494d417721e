#ifndef RAPT_NCCL_H
#define RAPT_NCCL_H

#include "rapt/c.h"

/* An ncclUniqueId: one process makes it, and the program tells it to all others. */
/* C has no using. NOLINTNEXTLINE(modernize-use-using) */
typedef struct rapt_nccl_id {
  unsigned char bytes[128];
} rapt_nccl_id;

#ifdef __cplusplus
#include <memory>

#include "rapt/communicator.h"

// rapt::nccl, a separate library: attend() over processes that each have a CUDA device, through NCCL. libnccl.so.2 is loaded
// at the first call; RAPT_NCCL_LIBRARY may name it.
namespace rapt::inline v1 {

// Call it in one process, for all.
RAPT_API rapt_nccl_id make_nccl_id();

// Arrays travel from device to device, and so do all other messages, without tags. All processes make the call
// together, each with a device of its own.
RAPT_API std::unique_ptr<Communicator> nccl_communicator(const rapt_nccl_id& id, int rank, int size,
                                                         const Device& device);
// The processes of another communicator, such as mpi_communicator(), which must outlive the result: arrays on devices travel
// by NCCL, all else as before.
RAPT_API std::unique_ptr<Communicator> nccl_communicator(Communicator& processes, const Device& device);

}  // namespace rapt::inline v1

extern "C" {
#endif

/* The same for C. 0, or -1 with rapt_nccl_last_error(). */
RAPT_API int rapt_nccl_make_id(rapt_nccl_id* id);
/* NULL, with rapt_nccl_last_error(), where there is none. `device` counts this process's CUDA devices. */
RAPT_API rapt_communicator* rapt_nccl_communicator(const rapt_nccl_id* id, int32_t rank, int32_t size, int32_t device);
RAPT_API void rapt_nccl_communicator_free(rapt_communicator* communicator);
/* What this thread's last failed call of the two above has to say; "" if none failed. */
RAPT_API const char* rapt_nccl_last_error(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RAPT_NCCL_H */
