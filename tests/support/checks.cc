#include "support/checks.h"

#include <algorithm>

#include "backends/cpu/x86/bf16.h"
#include "support/device.h"
#include "support/storage.h"

namespace support {
namespace {

// Statistics on a grid where the mechanism has one; hard attention ranks nothing after its first key.
ForwardWants all_outputs(const Case& c) {
  ForwardWants wants;
  wants.weights = true;
  wants.statistics = true;
  wants.grid = c.problem.grid;
  wants.top_k = static_cast<int>(std::min<Int>(3, c.spec.keys));
  if (c.problem.normalizer == oracle::Normalizer::argmax) wants.top_k = 1;
  wants.partial = c.problem.normalizer == oracle::Normalizer::softmax;
  return wants;
}

// Calls f under every SIMD target, and in bf16 with and without each kind of pair products that there is.
template <class F>
void for_each_target(rapt::Dtype dtype, const F& f) {
  if (!on_cpu()) return f(rapt::to_string(test_device()));
  for (const rapt::Isa isa : rapt::available_isas()) {
    const IsaScope scope(isa);
    f(std::string(rapt::name_of(isa)));
  }
  const rapt::Bf16Kernels* usual = rapt::active_bf16(rapt::active_isa());
  if (dtype != rapt::Dtype::bf16 || !usual) return;
  const rapt::Bf16Choices& choices = rapt::available_bf16();
  for (int n = 0; n < choices.count; ++n)
    if (choices.list[n] != usual) {
      rapt::set_active_bf16(choices.list[n]);
      f(choices.list[n]->name);
    }
  rapt::set_active_bf16(nullptr);
  f("without pair products");
  rapt::set_active_bf16(usual);
}

void check_forward(const Case& c) {
  Expected expected(c);
  Call call(c);
  for_each_target(c.spec.dtype, [&](const std::string& target) {
    EXPECT_TRUE(expected.matches(call.forward())) << target;
    EXPECT_TRUE(expected.matches(call.forward(all_outputs(c)))) << target << ", all outputs";
  });
  call.options.path = rapt::Path::generic;
  if (!on_cpu()) expected.hold_to_f32();
  EXPECT_TRUE(expected.matches(call.forward())) << "generic path";
  call.options.path = rapt::Path::reference;
  EXPECT_TRUE(expected.matches(call.forward(all_outputs(c)))) << "reference path";
}

void check_backward(const Case& c) {
  Expected expected(c, true);
  Call call(c);
  BackwardWants without_saved;
  without_saved.saved = false;
  for_each_target(c.spec.dtype, [&](const std::string& target) {
    EXPECT_TRUE(expected.matches(call.backward())) << target;
    EXPECT_TRUE(expected.matches(call.backward(without_saved))) << target << ", without saved";
  });
  call.options.path = rapt::Path::generic;
  if (!on_cpu()) expected.hold_to_f32();
  EXPECT_TRUE(expected.matches(call.backward())) << "generic path";
  call.options.path = rapt::Path::reference;
  EXPECT_TRUE(expected.matches(call.backward())) << "reference path";
}

}  // namespace

void check_forward(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  check_forward(make_case(spec));
}

void check_backward(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  check_backward(make_case(spec));
}

void check_case(const Case& c) {
  check_forward(c);
  check_backward(c);
}

const char* label(rapt::Path path) {
  constexpr const char* kLabels[] = {"automatic", "generic", "reference"};
  return kLabels[static_cast<int>(path)];
}

std::string mechanism_and_type(const testing::TestParamInfo<MechanismAndType>& parameters) {
  return std::get<0>(parameters.param) + "_" + label(std::get<1>(parameters.param));
}

std::string mechanism_and_normalizer(const testing::TestParamInfo<MechanismAndNormalizer>& parameters) {
  return std::get<0>(parameters.param) + "_" + label(std::get<1>(parameters.param));
}

std::string normalizer_name(const testing::TestParamInfo<NormalizerKind>& normalizer) {
  return label(normalizer.param);
}

std::string mechanism_name(const testing::TestParamInfo<std::string>& mechanism) { return mechanism.param; }

const std::vector<rapt::Dtype>& all_dtypes() {
  static const std::vector<rapt::Dtype> all = {rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16};
  return all;
}

}  // namespace support
