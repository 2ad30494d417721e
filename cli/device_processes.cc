#include "cli/device_processes.h"

#include "attend/counted.h"
#include "backends/mpi/session.h"
#include "cli/options.h"
#include "distributed/call.h"
#include "rapt/device.h"
#include "rapt/error.h"
#ifdef RAPT_HAS_NCCL
#include "rapt/nccl.h"
#endif

namespace rapt::cli {
namespace {

#ifdef RAPT_HAS_NCCL
constexpr bool kHasNccl = true;
#else
constexpr bool kHasNccl = false;
std::unique_ptr<Communicator> nccl_communicator(Communicator&, const Device&) { return nullptr; }
#endif

}  // namespace

Transport parse_transport(const std::string& text) {
  return parse_choice<Transport>("attend: --transport", text,
                                 {{"auto", Transport::automatic}, {"nccl", Transport::nccl}, {"mpi", Transport::mpi}});
}

DeviceProcesses::DeviceProcesses(Communicator& world, Transport way, const Device& wanted)
    : world_(world), device_(wanted) {
  if (device_.kind == Device::Kind::cpu) {
    if (way == Transport::nccl)
      throw Error("attend: --transport nccl: expected --device cuda, as NCCL sends memory of devices, got cpu");
    return;
  }
  if (way == Transport::automatic) way = kHasNccl ? Transport::nccl : Transport::mpi;
  const int devices = device_count(Device::Kind::cuda), own = mpi::local_rank();
  std::string refusal;
  if (way == Transport::nccl && !kHasNccl)
    refusal = "attend: --transport nccl: this build has no NCCL (configure with RAPT_NCCL=ON)";
  else if (devices == 0) refusal = "attend: --device cuda: expected a device on every machine, found none";
  else if (way == Transport::nccl && own >= devices)
    refusal = "attend: --device cuda: expected a device for each process of a machine, as NCCL needs, found " +
              counted(devices, "device") + " for process " + std::to_string(own) +
              " of a machine; --transport mpi lets processes share one";
  distributed::agree_on_error(refusal, world);
  device_.index = own % devices;
  if (way == Transport::nccl) nccl_ = nccl_communicator(world, device_);
}

}  // namespace rapt::cli
