// The ring in steps over processes of their own, which share a device where RAPT_TEST_DEVICE names one: the bits of one process.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "distributed/processes.h"
#include "distributed/socket_communicator.h"
#include "support/device.h"

namespace {

using support::CaseSpec;
using support::SocketCommunicator;
using support::distributed::long_spec;
using support::distributed::Processes;
using support::distributed::Wants;

constexpr const char* kSockets = "RAPT_TEST_SOCKETS";  // "rank fd fd … path"

std::vector<CaseSpec> specs() {
  CaseSpec plain = long_spec();
  plain.mask = support::MaskKind::top_left;
  CaseSpec many = plain;
  many.mechanism = "alibi";
  many.normalizer = support::NormalizerKind::softmax_sink;
  many.mask = support::MaskKind::packed_top_left;
  CaseSpec low = plain;
  low.dtype = rapt::Dtype::bf16;
  low.key_heads = 4;
  low.key_dim = 64;
  low.value_dims = {64};
  return {plain, many, low};
}

std::vector<std::uint64_t> bits_over(rapt::Communicator& communicator) {
  std::vector<std::uint64_t> all;
  for (const CaseSpec& spec : specs()) {
    Wants wants;
    wants.device = support::test_device();
    Processes processes(make_case(spec), communicator.size(), wants);
    const std::vector<std::uint64_t> bits = processes.run_over(communicator).bits();
    all.insert(all.end(), bits.begin(), bits.end());
  }
  return all;
}

// What a process of the test below does; by itself, nothing.
TEST(DistributedForked, OneOfThem) {
  const char* text = std::getenv(kSockets);
  if (text == nullptr) return;
  std::istringstream words(text);
  int rank = 0, size = 0;
  words >> rank >> size;
  std::vector<int> sockets(static_cast<std::size_t>(size));
  for (int& socket : sockets) words >> socket;
  std::string path;
  words >> path;
  SocketCommunicator communicator(rank, sockets);
  const std::vector<std::uint64_t> bits = bits_over(communicator);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bits.data()), static_cast<std::streamsize>(bits.size() * sizeof bits[0]));
}

// Each has its rows of the results and zeros elsewhere, or what all have: together, everything.
std::vector<std::uint64_t> bits_of(int size) {
  const auto count = static_cast<std::size_t>(size);
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = a + 1; b < count; ++b) {
      int pair[2] = {-1, -1};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  std::vector<pid_t> children;
  std::vector<std::string> paths;
  for (std::size_t rank = 0; rank < count; ++rank) {
    paths.push_back(testing::TempDir() + "rapt_forked_" + std::to_string(::getpid()) + "_" + std::to_string(rank));
    std::string text = std::to_string(rank) + " " + std::to_string(size);
    for (const int socket : sockets[rank]) text += " " + std::to_string(socket);
    text += " " + paths.back();
    const pid_t child = ::fork();
    if (child == 0) {
      // The others' ends are theirs alone.
      for (std::size_t other = 0; other < count; ++other)
        for (const int socket : sockets[other])
          if (other != rank && socket >= 0) ::close(socket);
      ::setenv(kSockets, text.c_str(), 1);
      ::execl("/proc/self/exe", "rapt_distributed_test", "--gtest_filter=DistributedForked.OneOfThem",
              "--gtest_brief=1", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    children.push_back(child);
  }
  for (const auto& list : sockets)
    for (const int socket : list)
      if (socket >= 0) ::close(socket);
  std::vector<std::uint64_t> all;
  for (std::size_t rank = 0; rank < count; ++rank) {
    int status = -1;
    ::waitpid(children[rank], &status, 0);
    EXPECT_EQ(status, 0) << "process " << rank;
    std::ifstream file(paths[rank], std::ios::binary);
    std::vector<std::uint64_t> bits;
    for (std::uint64_t word = 0; file.read(reinterpret_cast<char*>(&word), sizeof word);) bits.push_back(word);
    ::unlink(paths[rank].c_str());
    if (all.empty()) all.resize(bits.size());
    EXPECT_EQ(bits.size(), all.size());
    for (std::size_t n = 0; n < std::min(bits.size(), all.size()); ++n) all[n] |= bits[n];
  }
  return all;
}

TEST(DistributedForked, HaveTheBitsOfOne) {
  if (std::getenv(kSockets) != nullptr) return;
  const std::vector<std::uint64_t> one = bits_of(1);
  ASSERT_FALSE(one.empty());
  for (const int size : {2, 3, 4}) EXPECT_TRUE(bits_of(size) == one) << size << " processes";
}

}  // namespace
