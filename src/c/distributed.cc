#include "distributed/call.h"

#include <string>
#include <vector>

#include "c/reader.h"
#include "c/status.h"
#include "rapt/distributed.h"

namespace {

using rapt::c::guarded;
using rapt::c::Reader;

// The caller's functions as the library's class.
class CallersNetwork final : public rapt::Communicator {
 public:
  CallersNetwork(const Reader& reader, rapt_communicator* given) : given_(given) {
    reader.need(given, "communicator");
    const rapt_communicator all =
        reader.sized(*given, offsetof(rapt_communicator, bandwidth) + sizeof(given->bandwidth), "communicator");
    exchange_ = all.exchange;
    has_tags_ = all.without_tags == 0;
    if (given->start_send == nullptr || given->start_receive == nullptr || given->test == nullptr)
      throw rapt::Error("communicator: expected three functions, got NULL");
    if (given->size < 1 || given->rank < 0 || given->rank >= given->size)
      throw rapt::Error("communicator: rank: expected 0 to " + std::to_string(given->size - 1) + ", got " +
                        std::to_string(given->rank));
    if (given->bandwidth > 0) bandwidth_ = given->bandwidth;
  }
  ~CallersNetwork() override {
    if (bandwidth_ > 0) given_->bandwidth = bandwidth_;
  }
  CallersNetwork(const CallersNetwork&) = delete;
  CallersNetwork& operator=(const CallersNetwork&) = delete;

  int rank() const override { return given_->rank; }
  int size() const override { return given_->size; }
  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    return done(given_->start_send(given_->context, data, bytes, to, tag), "start_send");
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    return done(given_->start_receive(given_->context, data, bytes, from, tag), "start_receive");
  }
  bool test(int message) override { return done(given_->test(given_->context, message), "test") != 0; }
  bool has_tags() const override { return has_tags_; }
  void exchange(std::span<const rapt::Message> messages, const rapt::Device& device, void* stream) override {
    if (exchange_ == nullptr) return rapt::Communicator::exchange(messages, device, stream);
    std::vector<rapt_message> list;
    for (const rapt::Message& message : messages)
      list.push_back({message.data, message.bytes, message.process, message.receives ? 1 : 0});
    done(exchange_(given_->context, list.data(), list.size(), static_cast<std::int32_t>(device.kind), device.index,
                   stream),
         "exchange");
  }

 private:
  static int done(int status, const char* function) {
    if (status < 0)
      throw rapt::Error(std::string("communicator: ") + function + ": expected 0 or more, got " +
                        std::to_string(status));
    return status;
  }

  rapt_communicator* given_;
  decltype(rapt_communicator::exchange) exchange_ = nullptr;
  bool has_tags_ = true;
};

// The arguments of a call over processes.
struct DistributedArguments {
  rapt::Inputs inputs;
  rapt::Outputs outputs;
  std::vector<rapt::ConstView> out, grad_out;
  rapt::ConstView grad_lse{};
  rapt::Gradients gradients;
  rapt::AttendOptions options;
  rapt::Distribution distribution = rapt::Distribution::automatic;
};

// The others wait for this process, so what it cannot read ends the call in all of them.
template <class F>
void read_together(rapt::Communicator& network, const F& read) {
  try {
    read();
  } catch (const std::exception& error) {
    rapt::distributed::refuse(error.what(), network);
    throw;
  }
}

// The text of rapt_last_explanation().
std::string& last_explanation() {
  thread_local std::string text;
  return text;
}

int backward_together(const char* function, const rapt_inputs* inputs, const rapt_array* out,
                      const rapt_array* grad_out, const rapt_array* grad_lse, const rapt_saved* saved,
                      const rapt_gradients* gradients, const rapt_options* options, rapt_communicator* communicator,
                      std::int32_t distribution) {
  return guarded([&] {
    const Reader reader(function);
    last_explanation().clear();
    CallersNetwork network(reader, communicator);
    DistributedArguments read;
    read_together(network, [&] {
      read.inputs = reader.inputs(inputs);
      read.out = reader.const_views(out, read.inputs.v.size(), "out");
      read.grad_out = reader.const_views(grad_out, read.inputs.v.size(), "grad_out");
      reader.need(grad_lse, "grad_lse");
      read.grad_lse = reader.view(*grad_lse, "grad_lse");
      read.gradients = reader.gradients(gradients);
      read.options = reader.options(options);
      read.distribution = reader.choice(distribution, rapt::Distribution::heads, "distribution");
    });
    rapt::attend_backward(read.inputs, read.out, read.grad_out, saved != nullptr ? &saved->rows : nullptr,
                          read.gradients, read.options, network, {read.distribution, &last_explanation()},
                          read.grad_lse);
  });
}

}  // namespace

extern "C" {

int rapt_share_of(int64_t length, int32_t rank, int32_t size, rapt_share* share) {
  return guarded([&] {
    Reader("rapt_share_of").need(share, "share");
    const rapt::Share found = rapt::share_of(length, rank, size);
    *share = {found.early_begin, found.early_end, found.late_begin, found.late_end};
  });
}

int rapt_attend_distributed(const rapt_inputs* inputs, const rapt_outputs* outputs, const rapt_options* options,
                            rapt_communicator* communicator, int32_t distribution) {
  return guarded([&] {
    const Reader reader("rapt_attend_distributed");
    last_explanation().clear();
    CallersNetwork network(reader, communicator);
    DistributedArguments read;
    read_together(network, [&] {
      read.inputs = reader.inputs(inputs);
      read.outputs = reader.outputs(outputs);
      read.options = reader.options(options);
      read.distribution = reader.choice(distribution, rapt::Distribution::heads, "distribution");
    });
    rapt::attend(read.inputs, read.outputs, read.options, network, {read.distribution, &last_explanation()});
  });
}

int rapt_attend_backward_distributed(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                                     const rapt_saved* saved, const rapt_gradients* gradients,
                                     const rapt_options* options, rapt_communicator* communicator,
                                     int32_t distribution) {
  const rapt_array none = {};
  return backward_together("rapt_attend_backward_distributed", inputs, out, grad_out, &none, saved, gradients, options,
                           communicator, distribution);
}

int rapt_attend_backward_lse_distributed(const rapt_inputs* inputs, const rapt_array* out, const rapt_array* grad_out,
                                         const rapt_array* grad_lse, const rapt_saved* saved,
                                         const rapt_gradients* gradients, const rapt_options* options,
                                         rapt_communicator* communicator, int32_t distribution) {
  return backward_together("rapt_attend_backward_lse_distributed", inputs, out, grad_out, grad_lse, saved, gradients,
                           options, communicator, distribution);
}

const char* rapt_last_explanation(void) { return last_explanation().c_str(); }

}  // extern "C"
