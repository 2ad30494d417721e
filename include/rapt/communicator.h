#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rapt/api.h"

// How processes that share one call reach each other. rapt/mpi.h has the one for MPI.
namespace rapt::inline v1 {

// Point-to-point messages, none of which blocks. Messages between two processes under one tag keep their order; sender and
// receiver agree on the size. One thread at a time.
class RAPT_API Communicator {
 public:
  virtual ~Communicator();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The memory belongs to the message until test() or wait() says that it is done; each message is asked about until then.
  virtual int start_send(const void* data, std::size_t bytes, int to, int tag) = 0;
  virtual int start_receive(void* data, std::size_t bytes, int from, int tag) = 0;
  // Whether the message is done; its number is free again then. Throws rapt::Error where it cannot be any more.
  virtual bool test(int message) = 0;

  void wait(int message);
  // Everybody's bytes, in the order of the ranks.
  std::vector<std::byte> all_gather(const void* data, std::size_t bytes);
  // From process `root` to all others.
  void broadcast(void* data, std::size_t bytes, int root);
  // Bytes a second between two processes: measured at the first call, which all make together. 0: one process alone.
  double bandwidth();

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  double bandwidth_ = -1;  // not measured yet
};

}  // namespace rapt::inline v1
