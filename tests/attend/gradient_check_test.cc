// Every registered mechanism, known to the oracle or not: gradients against differences of the library's own forward pass.

#include <gtest/gtest.h>

#include "support/checks.h"

namespace {

using oracle::Array;
using support::Call;
using support::CaseSpec;

double loss(Call& call) {
  const support::ForwardResult r = call.forward();
  double sum = 0;
  for (std::size_t n = 0; n < r.out.size(); ++n)
    for (std::size_t e = 0; e < r.out[n].data.size(); ++e)
      sum += r.out[n].data[e] * call.described().grad_out[n].data[e];
  return sum;
}

Array differences(Call& call, support::Buffer& buffer, const oracle::Sizes& shape) {
  const Array kept = buffer.values();
  Array moved = kept;
  Array result(shape);
  for (std::size_t n = 0; n < kept.data.size(); ++n) {
    const double step = 1e-5 * std::max(1.0, std::abs(kept.data[n]));
    moved.data[n] = kept.data[n] + step;
    buffer.set(moved);
    const double above = loss(call);
    moved.data[n] = kept.data[n] - step;
    buffer.set(moved);
    result.data[n] = (above - loss(call)) / (2 * step);
    moved.data[n] = kept.data[n];
  }
  buffer.set(kept);
  return result;
}

void check(const CaseSpec& spec, rapt::Path path = rapt::Path::automatic) {
  SCOPED_TRACE(describe(spec));
  Call call(make_case(spec));
  call.options.threads = 1;
  call.options.path = path;
  const support::BackwardResult backward = call.backward();
  ASSERT_EQ(backward.damage, "");
  oracle::Gradients numeric;
  const oracle::Problem& p = call.described().problem;
  numeric.q = differences(call, call.q(), p.q.shape);
  numeric.k = differences(call, call.k(), p.k.shape);
  for (std::size_t n = 0; n < p.v.size(); ++n) numeric.v.push_back(differences(call, call.v(n), p.v[n].shape));
  if (!p.bias.empty()) numeric.bias = differences(call, call.bias(), p.bias.shape);
  for (const auto& [name, value] : p.parameters)
    numeric.parameters[name] = differences(call, call.parameter(name), value.shape);
  EXPECT_TRUE(support::agree(backward.gradients, numeric, 1e-6));
}

class GradientCheck : public testing::TestWithParam<std::string> {
 protected:
  static CaseSpec small() {
    CaseSpec s;
    s.mechanism = GetParam();
    s.queries = 6;
    s.keys = 7;
    s.query_dim = 4;
    s.key_dim = 3;
    s.value_dims = {2, 3};
    return s;
  }
};

TEST_P(GradientCheck, Plain) {
  check(small());
  check(small(), rapt::Path::generic);
  check(small(), rapt::Path::reference);
}

TEST_P(GradientCheck, SoftcapBiasMaskScaleAndGroups) {
  CaseSpec s = small();
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.softcap = 2;
  s.scale = 0.8;
  s.bias = support::BiasKind::per_head;
  s.mask = support::MaskKind::everything;
  check(s);
  check(s, rapt::Path::reference);
}

TEST_P(GradientCheck, SharedAndDefaultParameters) {
  CaseSpec s = small();
  s.batch = 2;
  s.per_head = false;
  s.settings = support::Settings::defaults;
  check(s);
  s.optional_parameters = false;
  check(s);
}

TEST_P(GradientCheck, AcrossTiles) {
  CaseSpec s = small();
  s.heads = 1;
  s.queries = 70;
  s.keys = 21;
  s.key_dim = 2;
  s.value_dims = {1};
  s.mask = support::MaskKind::window;
  check(s);
}

INSTANTIATE_TEST_SUITE_P(Registry, GradientCheck, testing::ValuesIn(support::registered_names()),
                         support::mechanism_name);

}  // namespace
