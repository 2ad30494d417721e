#pragma once

#include <memory>
#include <string>

#include "rapt/communicator.h"
#include "rapt/view.h"

namespace rapt::cli {

enum class Transport { automatic, nccl, mpi };
// auto, nccl or mpi.
Transport parse_transport(const std::string& text);

// The processes of mpirun for one call: which device each has, and how arrays on devices travel between them.
class DeviceProcesses {
 public:
  // All processes make the call together, and throw together.
  DeviceProcesses(Communicator& world, Transport transport, const Device& wanted);

  const Device& device() const { return device_; }
  Communicator& communicator() const { return nccl_ ? *nccl_ : world_; }

 private:
  Communicator& world_;
  Device device_;
  std::unique_ptr<Communicator> nccl_;
};

}  // namespace rapt::cli
