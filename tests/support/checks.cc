#include "support/checks.h"

#include <algorithm>

#include "support/storage.h"

namespace support {
namespace {

// Statistics on a grid where the mechanism has one; hard attention ranks nothing after its first key.
ForwardWants all_outputs(const Case& c) {
  ForwardWants wants;
  wants.weights = true;
  wants.statistics = true;
  wants.grid = c.problem.grid;
  wants.top_k = c.spec.normalizer == rapt::Normalizer::argmax ? 1 : static_cast<int>(std::min<Int>(3, c.spec.keys));
  return wants;
}

}  // namespace

void check_forward(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  const Case c = make_case(spec);
  const Expected expected(c);
  Call call(c);
  for (rapt::Isa isa : rapt::available_isas()) {
    const IsaScope scope(isa);
    EXPECT_TRUE(expected.matches(call.forward())) << rapt::name_of(isa);
    EXPECT_TRUE(expected.matches(call.forward(all_outputs(c)))) << rapt::name_of(isa) << ", all outputs";
  }
  call.options.path = rapt::Path::generic;
  EXPECT_TRUE(expected.matches(call.forward())) << "generic path";
  call.options.path = rapt::Path::reference;
  EXPECT_TRUE(expected.matches(call.forward(all_outputs(c)))) << "reference path";
}

void check_backward(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  const Case c = make_case(spec);
  const Expected expected(c, true);
  Call call(c);
  BackwardWants without_saved;
  without_saved.saved = false;
  for (rapt::Isa isa : rapt::available_isas()) {
    const IsaScope scope(isa);
    EXPECT_TRUE(expected.matches(call.backward())) << rapt::name_of(isa);
    EXPECT_TRUE(expected.matches(call.backward(without_saved))) << rapt::name_of(isa) << ", without saved";
  }
  call.options.path = rapt::Path::generic;
  EXPECT_TRUE(expected.matches(call.backward())) << "generic path";
  call.options.path = rapt::Path::reference;
  EXPECT_TRUE(expected.matches(call.backward())) << "reference path";
}

std::string mechanism_and_type(const testing::TestParamInfo<MechanismAndType>& parameters) {
  return std::get<0>(parameters.param) + "_" + label(std::get<1>(parameters.param));
}

std::string mechanism_name(const testing::TestParamInfo<std::string>& mechanism) { return mechanism.param; }

const std::vector<rapt::Dtype>& all_dtypes() {
  static const std::vector<rapt::Dtype> all = {rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16};
  return all;
}

}  // namespace support
