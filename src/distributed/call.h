#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attend/backend.h"
#include "distributed/cut.h"
#include "distributed/slots.h"
#include "rapt/distributed.h"

namespace rapt::inline v1::distributed {

// What a process was given, forward or backward.
struct Given {
  Distribution distribution = Distribution::automatic;
  const Inputs* inputs = nullptr;
  const AttendOptions* options = nullptr;
  const Outputs* outputs = nullptr;             // forward
  const std::vector<ConstView>* out = nullptr;  // backward, from here on
  const std::vector<ConstView>* grad_out = nullptr;
  const Saved* saved = nullptr;
  const Gradients* gradients = nullptr;
  ConstView grad_lse{};
};

// A call that all processes agree on. Arrays are the process's own.
struct Call {
  const char* operation = "attend";
  Communicator* communicator = nullptr;
  Inputs inputs;
  AttendOptions
      options;  // positions are explicit: first_query is given, causal is top_left or none outside packed sequences
  Gradients gradients;  // as all have them: empty arrays that others want are wanted here too
  ConstView grad_lse{};
  Problem whole;  // sizes and masks of the whole sequence; its arrays are not to be read
  Cut queries{0}, keys{0};
  std::optional<Slots> slots;
  ConstView sink{};          // [H] or one number
  bool shared_bias = false;  // one row for all queries
  bool is_softmax = true;
  bool is_additive = false;  // weights of a key follow from its score alone: what parts of the keys give is added

  // Whether messages go step by step, as they must for a device or without tags.
  bool in_steps() const { return whole.device.kind != Device::Kind::cpu || !communicator->has_tags(); }
  // All weight is on one key: the better of two parts has it.
  bool is_choice() const { return whole.normalizer->threshold == Threshold::first_largest; }
  // From all scores of a row at once: its weights have no parts, but its gradients do.
  bool is_solved() const { return whole.normalizer->threshold == Threshold::solved; }

  int rank() const { return communicator->rank(); }
  int size() const { return communicator->size(); }
};

// Checks the call in every process; where one refuses, all throw. Never returns in some processes alone.
Call agree(const char* operation, const Given& given, Communicator& communicator);

// For a process that cannot make the call, which then throws in the others too: "process 3: message".
void refuse(const std::string& message, Communicator& communicator);

// Throws in every process where `message` is not empty in one of them.
void agree_on_error(const std::string& message, Communicator& communicator);

}  // namespace rapt::inline v1::distributed
