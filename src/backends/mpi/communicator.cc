#include <algorithm>
#include <array>
#include <climits>
#include <string>
#include <vector>

#include "rapt/error.h"
#include "rapt/mpi.h"

namespace rapt::inline v1 {
namespace {

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw Error(std::string("mpi: ") + what + ": " + text.data());
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm communicator) {
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (!initialized)
      throw Error("mpi_communicator: expected MPI to be initialised, got a call before MPI_Init_thread");
    // A communicator of its own: its tags are private, and errors are returned instead of ending the program.
    check(MPI_Comm_dup(communicator, &own_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(own_, &rank_);
    MPI_Comm_size(own_, &size_);
  }
  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&own_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    return start(bytes, [&](std::size_t at, int count, MPI_Request* request) {
      check(MPI_Isend(static_cast<const char*>(data) + at, count, MPI_BYTE, to, tag, own_, request), "MPI_Isend");
    });
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    return start(bytes, [&](std::size_t at, int count, MPI_Request* request) {
      check(MPI_Irecv(static_cast<char*>(data) + at, count, MPI_BYTE, from, tag, own_, request), "MPI_Irecv");
    });
  }

  bool test(int message) override {
    std::vector<MPI_Request>& parts = messages_[static_cast<std::size_t>(message)];
    int done = 0;
    check(MPI_Testall(static_cast<int>(parts.size()), parts.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done) {
      parts.clear();
      free_.push_back(message);
    }
    return done != 0;
  }

 private:
  // MPI counts in int: long messages go in parts.
  template <class Part>
  int start(std::size_t bytes, const Part& part) {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    if (free_.empty()) {
      free_.push_back(static_cast<int>(messages_.size()));
      messages_.emplace_back();
    }
    const int message = free_.back();
    free_.pop_back();
    std::vector<MPI_Request>& parts = messages_[static_cast<std::size_t>(message)];
    std::size_t at = 0;
    do {
      const std::size_t count = std::min(kMost, bytes - at);
      part(at, static_cast<int>(count), &parts.emplace_back(MPI_REQUEST_NULL));
      at += count;
    } while (at < bytes);
    return message;
  }

  MPI_Comm own_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<std::vector<MPI_Request>> messages_;
  std::vector<int> free_;
};

// No exception leaves a function of C.
template <class F>
std::int32_t contain(const F& f) noexcept {
  try {
    return static_cast<std::int32_t>(f());
  } catch (...) {
    return -1;
  }
}

}  // namespace

std::unique_ptr<Communicator> mpi_communicator(MPI_Comm communicator) {
  return std::make_unique<MpiCommunicator>(communicator);
}

}  // namespace rapt::inline v1

extern "C" {

rapt_communicator* rapt_mpi_communicator(MPI_Comm communicator) {
  try {
    auto own = rapt::mpi_communicator(communicator);
    auto made = std::make_unique<rapt_communicator>();
    made->struct_size = sizeof(rapt_communicator);
    made->rank = own->rank();
    made->size = own->size();
    made->start_send = [](void* context, const void* data, std::size_t bytes, std::int32_t to, std::int32_t tag) {
      return rapt::contain([&] { return static_cast<rapt::Communicator*>(context)->start_send(data, bytes, to, tag); });
    };
    made->start_receive = [](void* context, void* data, std::size_t bytes, std::int32_t from, std::int32_t tag) {
      return rapt::contain(
          [&] { return static_cast<rapt::Communicator*>(context)->start_receive(data, bytes, from, tag); });
    };
    made->test = [](void* context, std::int32_t message) {
      return rapt::contain([&] { return static_cast<rapt::Communicator*>(context)->test(message) ? 1 : 0; });
    };
    made->context = own.release();
    return made.release();
  } catch (...) {
    return nullptr;
  }
}

void rapt_mpi_communicator_free(rapt_communicator* communicator) {
  if (communicator == nullptr) return;
  delete static_cast<rapt::Communicator*>(communicator->context);
  delete communicator;
}

}  // extern "C"
