#include "training/processes.h"

#include <cstring>

#include "attend/counted.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1::training {
namespace {

constexpr int kPartTag = 1, kSumTag = 2;

}  // namespace

// Every process adds one segment of the numbers, then all segments go to all: each number travels twice.
void Processes::add_gradients(const std::vector<float*>& parts, std::int64_t size) const {
  if (alone()) return;
  const int own = communicator_->rank(), all = communicator_->size();
  const auto count = static_cast<std::int64_t>(parts.size());
  const auto begin = [&](int process) { return size * process / all; };
  const auto length = [&](int process) { return begin(process + 1) - begin(process); };
  const auto bytes = [&](int process) { return static_cast<std::size_t>(length(process)) * sizeof(float); };
  const auto at = [&](std::int64_t part, int process) {
    return parts[static_cast<std::size_t>(part)] + begin(process);
  };

  std::vector<int> messages;
  for (std::int64_t p = 0; p < count; ++p) {
    const int owner = static_cast<int>(p % all);
    if (owner != own) {
      messages.push_back(communicator_->start_receive(at(p, own), bytes(own), owner, kPartTag));
      continue;
    }
    for (int other = 0; other < all; ++other)
      if (other != own) messages.push_back(communicator_->start_send(at(p, other), bytes(other), other, kPartTag));
  }
  for (const int message : messages) communicator_->wait(message);
  messages.clear();
  const TensorKernels<float>& kernels = tensor_kernels<float>();
  for (std::int64_t p = 1; p < count; ++p) kernels.add(at(p, own), at(0, own), length(own));
  for (int other = 0; other < all; ++other) {
    if (other == own) continue;
    messages.push_back(communicator_->start_receive(at(0, other), bytes(other), other, kSumTag));
    messages.push_back(communicator_->start_send(at(0, own), bytes(own), other, kSumTag));
  }
  for (const int message : messages) communicator_->wait(message);
  for (std::int64_t p = 1; p < count; ++p) {
    if (computes(p)) std::memset(parts[static_cast<std::size_t>(p)], 0, static_cast<std::size_t>(size) * sizeof(float));
    else std::memset(at(p, own), 0, bytes(own));
  }
}

bool Processes::share_sums(std::span<LossSums> sums, bool stop) const {
  if (alone()) return stop;
  static_assert(std::is_trivially_copyable_v<LossSums>);
  std::vector<std::byte> own(sums.size_bytes() + 1);
  std::memcpy(own.data(), sums.data(), sums.size_bytes());
  own.back() = static_cast<std::byte>(stop);
  const std::vector<std::byte> all = communicator_->all_gather(own.data(), own.size());
  const auto size = static_cast<std::size_t>(communicator_->size());
  for (std::size_t p = 0; p < sums.size(); ++p)
    std::memcpy(&sums[p], all.data() + p % size * own.size() + p * sizeof(LossSums), sizeof(LossSums));
  bool any = false;
  for (std::size_t process = 0; process < size; ++process)
    any = any || all[(process + 1) * own.size() - 1] != std::byte{0};
  return any;
}

void Processes::meet() const {
  const std::byte nothing{};
  if (!alone()) communicator_->all_gather(&nothing, 1);
}

std::string Processes::text() const { return alone() ? "" : counted(communicator_->size(), "process") + " of "; }

void Processes::share(void* data, std::size_t bytes) const {
  if (!alone()) communicator_->broadcast(data, bytes, 0);
}

}  // namespace rapt::inline v1::training
