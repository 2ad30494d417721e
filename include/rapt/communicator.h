#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rapt/api.h"
#include "rapt/view.h"

// How the processes of a call exchange messages. rapt/mpi.h has the one for MPI.
namespace rapt::inline v1 {

// One of the messages that are exchanged together.
struct Message {
  void* data = nullptr;  // only read where it is sent
  std::size_t bytes = 0;
  int process = 0;  // the receiver, or the sender
  bool receives = false;
};

// Non-blocking point-to-point messages. Messages between two processes under one tag keep their order; sender and
// receiver agree on the size. One thread at a time.
class RAPT_API Communicator {
 public:
  virtual ~Communicator();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The memory belongs to the message until test() or wait() reports it done; every message is tested until then.
  virtual int start_send(const void* data, std::size_t bytes, int to, int tag) = 0;
  virtual int start_receive(void* data, std::size_t bytes, int from, int tag) = 0;
  // Whether the message is done, which frees its number. Throws rapt::Error if it can no longer complete.
  virtual bool test(int message) = 0;

  // Sends and receives messages of one device's memory: on a cpu they are done when it returns, on a device in the order of
  // the stream. Of two processes, what one sends and the other receives comes in the same order. Without an
  // implementation of its own it copies through ordinary memory and waits.
  virtual void exchange(std::span<const Message> messages, const Device& device, void* stream);
  // False: messages only keep their order, whatever their tag. attend() then sends arrays by exchange() only.
  virtual bool has_tags() const { return true; }

  void wait(int message);
  // The bytes of all processes, in rank order.
  std::vector<std::byte> all_gather(const void* data, std::size_t bytes);
  // From process `root` to all others.
  void broadcast(void* data, std::size_t bytes, int root);
  // Bytes per second between two processes, measured at the first call, which all make together. 0: a single process.
  double bandwidth();

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  double bandwidth_ = -1;  // not measured yet
};

}  // namespace rapt::inline v1
