#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.h"

// Runs the library on a case, every output in a guarded buffer of its own.
namespace support {

struct ForwardWants {
  bool lse = true;
  bool weights = false;  // of every row of every head
  bool statistics = false;
  int top_k = 0;
  std::array<Int, 2> grid{};  // of the statistics
  bool partial = false;       // row maxima and row sums
  bool saved = false;
};

// What a forward call wrote, as numbers and as bits.
struct ForwardResult {
  std::vector<oracle::Array> out;
  oracle::Array lse;
  oracle::Array row_max, row_sum;
  oracle::Array weights;  // [B, H, Sq, Sk]
  oracle::Statistics statistics;
  std::vector<std::byte> bits;
  std::string damage;  // an overwritten guard or an unwritten element; empty if there is none
};

// Which gradients to ask for.
struct BackwardWants {
  bool q = true;
  bool k = true;
  bool v = true;
  bool bias = true;
  bool parameters = true;  // of the mechanism and of the normaliser
  bool saved = true;       // hand the row sums of the forward pass over
};

struct BackwardResult {
  oracle::Gradients gradients;                         // empty arrays where nothing was asked for
  std::map<std::string, std::vector<std::byte>> bits;  // by argument: q, k, v0, …, bias, and each parameter
  std::string damage;
};

class Call {
 public:
  explicit Call(const Case& c);

  // Tests may change these before a call.
  rapt::AttendOptions options;
  rapt::Inputs inputs;
  std::vector<rapt::ConstView> grad_out;
  rapt::ConstView grad_lse;

  ForwardResult forward(const ForwardWants& wants = {});
  // Runs the forward pass first, for its outputs.
  BackwardResult backward(const BackwardWants& wants = {});

  // Where calls are computed: the device under test, or the CPU for f64 and the reference path.
  rapt::Device device() const;
  // The outputs of the last forward().
  std::vector<rapt::ConstView> out_views() const;
  const rapt::Saved& saved() const { return saved_; }
  const Case& described() const { return case_; }
  // The caller's arrays, to change numbers between calls.
  Buffer& q() { return *q_; }
  Buffer& k() { return *k_; }
  Buffer& v(std::size_t set) { return *v_[set]; }
  Buffer& bias() { return *bias_; }
  Buffer& output_gradient(std::size_t set) { return *grad_out_[set]; }
  Buffer& parameter(const std::string& name) { return *parameters_.at(name); }

 private:
  // A parameter's buffer, in the library's shape.
  rapt::NamedView add_parameter(const rapt::ParameterSpec& spec, const oracle::Array& value);

  Case case_;
  std::unique_ptr<Buffer> q_, k_, bias_, grad_lse_;
  std::vector<std::unique_ptr<Buffer>> v_, grad_out_;
  std::map<std::string, std::unique_ptr<Buffer>> parameters_;
  std::vector<std::uint8_t> dense_;
  std::vector<Buffer> out_;
  rapt::Saved saved_;
};

}  // namespace support
