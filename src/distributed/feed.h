#pragma once

#include <array>
#include <vector>

#include "distributed/work.h"

namespace rapt::inline v1::distributed {

// Keys and values of all units, in order: unit u travels from its owner to process 0 and from there to the last one,
// each process sending it once. Later units are received meanwhile.
class Feed {
 public:
  explicit Feed(const Call& call);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // Unit u, early and late piece, until the next call. Units are taken in order, each once.
  std::array<KeyPieces, 2> take(std::int64_t unit);

  // Makes progress on messages; never blocks.
  void progress();

  std::int64_t units() const { return call_.keys.units(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  // Two units ahead: one arrives while another is computed with, and a third may still be on its way out.
  static constexpr std::int64_t kAhead = 2, kBuffers = 4;

  struct Buffer {
    std::int64_t unit = -1;
    std::vector<std::byte> bytes;
    int receiving = -1;
    std::vector<int> sending;
    bool here = false;
  };

  void start(std::int64_t unit);
  void forward(Buffer& buffer);
  void pack(Buffer& buffer);
  void drain(Buffer& buffer);
  std::size_t bytes_of(std::int64_t unit) const;
  Buffer& buffer(std::int64_t unit) { return buffers_[static_cast<std::size_t>(unit % kBuffers)]; }

  const Call& call_;
  std::vector<ConstView> arrays_;  // k, then each v: this process's rows
  std::array<Buffer, kBuffers> buffers_;
  std::int64_t started_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace rapt::inline v1::distributed
