// The C API gives the bits of the C++ one, for every mechanism and every output and option.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "c/c_structs.h"
#include "rapt/normalizer.h"
#include "support/checks.h"

namespace {

using support::Buffer;
using support::Call;
using support::CaseSpec;
using support::Int;

// Room for every output and gradient of a call.
class Products {
 public:
  explicit Products(const Call& call) {
    const rapt::AttendOptions& options = call.options;
    const oracle::Problem& p = call.described().problem;
    const Int B = p.batch(), H = p.heads(), Sq = p.queries(), Sk = p.keys();
    const rapt::Dtype dtype = call.described().spec.dtype;
    const rapt::Dtype compute = dtype == rapt::Dtype::f64 ? rapt::Dtype::f64 : rapt::Dtype::f32;
    for (const oracle::Array& v : p.v) outputs.out.push_back(add(dtype, {B, H, Sq, v.shape[3]}));
    outputs.lse = add(compute, {B, H, Sq, 1});
    outputs.weights.push_back({B - 1, H - 1, 1, Sq, add(compute, {1, 1, Sq - 1, Sk})});
    outputs.weights.push_back({0, 0, 0, 2, add(compute, {1, 1, 2, Sk})});
    const bool grid = p.grid[0] > 0;
    outputs.statistics.entropy = add(compute, {B, H, Sq, 1});
    outputs.statistics.position = add(compute, {B, H, Sq, grid ? 2 : 1});
    outputs.statistics.covariance = add(compute, {B, H, Sq, grid ? 4 : 1});
    outputs.statistics.top_k = 3;
    outputs.statistics.top_weights = add(compute, {B, H, Sq, 3});
    outputs.statistics.grid = p.grid;
    argmax.assign(static_cast<std::size_t>(B * H * Sq), -7);
    top.assign(static_cast<std::size_t>(B * H * Sq * 3), -7);
    outputs.statistics.argmax = argmax.data();
    outputs.statistics.top_indices = top.data();

    first_gradient_ = buffers_.size();
    gradients.q = add(dtype, p.q.shape);
    gradients.k = add(dtype, p.k.shape);
    for (const oracle::Array& v : p.v) gradients.v.push_back(add(dtype, v.shape));
    if (options.bias) gradients.bias = add(dtype, options.bias.shape);
    for (const rapt::NamedView& parameter : options.score.parameters)
      gradients.parameters.push_back({parameter.name, add(dtype, parameter.value.shape)});
  }

  std::vector<rapt::ConstView> out() const { return {outputs.out.begin(), outputs.out.end()}; }

  void expect_same_gradients(const Products& other) const { expect_same_from(other, first_gradient_); }
  void expect_same(const Products& other) const {
    expect_same_from(other, 0);
    EXPECT_EQ(argmax, other.argmax);
    EXPECT_EQ(top, other.top);
  }

  rapt::Outputs outputs;
  rapt::Gradients gradients;
  std::vector<std::int64_t> argmax, top;

 private:
  rapt::View add(rapt::Dtype dtype, const rapt::Shape& shape) {
    buffers_.push_back(std::make_unique<Buffer>(dtype, shape));
    return buffers_.back()->view();
  }

  void expect_same_from(const Products& other, std::size_t first) const {
    for (std::size_t n = first; n < buffers_.size(); ++n) {
      EXPECT_EQ(buffers_[n]->damage(), "") << "array " << n;
      EXPECT_EQ(buffers_[n]->bytes(), other.buffers_[n]->bytes()) << "array " << n;
    }
  }

  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::size_t first_gradient_ = 0;
};

using SavedHandle = std::unique_ptr<rapt_saved, decltype(&rapt_saved_free)>;

void expect_same_bits(const CaseSpec& spec, rapt::Path path = rapt::Path::automatic) {
  SCOPED_TRACE(describe(spec));
  Call call(make_case(spec));
  call.options.threads = 2;
  call.options.path = path;

  Products expected(call);
  rapt::Saved saved;
  expected.outputs.saved = &saved;
  rapt::attend(call.inputs, expected.outputs, call.options);
  rapt::attend_backward(call.inputs, expected.out(), call.grad_out, &saved, expected.gradients, call.options);

  Products got(call);
  const SavedHandle handle(rapt_saved_create(), &rapt_saved_free);
  ASSERT_NE(handle, nullptr);
  const c_test::Options options(call.options);
  const c_test::Inputs inputs(call.inputs);
  const c_test::Outputs outputs(got.outputs, handle.get());
  const c_test::Gradients gradients(got.gradients);
  const std::vector<rapt_array> out = c_test::c_arrays(got.out());
  const std::vector<rapt_array> grad_out = c_test::c_arrays(call.grad_out);
  ASSERT_EQ(rapt_attend_forward(&inputs.c, &outputs.c, &options.c), RAPT_OK) << rapt_last_error();
  ASSERT_EQ(rapt_attend_backward(&inputs.c, out.data(), grad_out.data(), handle.get(), &gradients.c, &options.c),
            RAPT_OK)
      << rapt_last_error();
  got.expect_same(expected);

  // Without the saved rows they are computed again.
  const Products recomputed(call), c_recomputed(call);
  const c_test::Gradients c_gradients(c_recomputed.gradients);
  rapt::attend_backward(call.inputs, expected.out(), call.grad_out, nullptr, recomputed.gradients, call.options);
  ASSERT_EQ(rapt_attend_backward(&inputs.c, out.data(), grad_out.data(), nullptr, &c_gradients.c, &options.c), RAPT_OK)
      << rapt_last_error();
  c_recomputed.expect_same_gradients(recomputed);
}

bool same_bits(const rapt::View& a, const rapt::View& b) {
  const auto bytes = static_cast<std::size_t>(rapt::element_count(a.shape)) * rapt::size_of(a.dtype);
  return a.shape == b.shape && std::memcmp(a.data, b.data, bytes) == 0;
}

// A plan, run twice: with its own arrays, and with others.
void expect_same_plan(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  CaseSpec seeded = spec;
  seeded.seed += 100;
  Call call(make_case(spec));
  const Call other(make_case(seeded));
  Products expected(call), got(call), expected_other(call), got_other(call);
  rapt::attend(call.inputs, expected.outputs, call.options);
  const c_test::Options options(call.options);
  const c_test::Inputs inputs(call.inputs);
  const c_test::Outputs outputs(got.outputs, nullptr);
  rapt_plan* made = nullptr;
  ASSERT_EQ(rapt_plan_create(&inputs.c, &outputs.c, &options.c, &made), RAPT_OK) << rapt_last_error();
  const std::unique_ptr<rapt_plan, decltype(&rapt_plan_free)> plan(made, &rapt_plan_free);
  ASSERT_EQ(rapt_plan_run(plan.get(), nullptr), RAPT_OK) << rapt_last_error();
  for (std::size_t s = 0; s < got.outputs.out.size(); ++s)
    EXPECT_TRUE(same_bits(got.outputs.out[s], expected.outputs.out[s]));

  rapt_plan_arrays arrays;
  rapt_plan_arrays_init(&arrays, sizeof arrays);
  std::vector<const void*> v;
  std::vector<void*> out;
  for (const rapt::ConstView& view : other.inputs.v) v.push_back(view.data);
  for (const rapt::View& view : got_other.outputs.out) out.push_back(view.data);
  const std::vector<std::int64_t> lengths = {7}, first = {2};
  arrays.q = other.inputs.q.data;
  arrays.k = other.inputs.k.data;
  arrays.v = v.data();
  arrays.out = out.data();
  arrays.lse = got_other.outputs.lse.data;
  arrays.key_lengths = lengths.data();
  arrays.key_length_count = lengths.size();
  arrays.first_query = first.data();
  arrays.first_query_count = first.size();
  ASSERT_EQ(rapt_plan_run(plan.get(), &arrays), RAPT_OK) << rapt_last_error();
  rapt::AttendOptions moved = call.options;
  moved.mask.key_lengths = lengths;
  moved.first_query = first;
  rapt::attend(other.inputs, expected_other.outputs, moved);
  for (std::size_t s = 0; s < out.size(); ++s)
    EXPECT_TRUE(same_bits(got_other.outputs.out[s], expected_other.outputs.out[s]));
  EXPECT_TRUE(same_bits(got_other.outputs.lse, expected_other.outputs.lse));
}

CaseSpec small(const std::string& mechanism) {
  CaseSpec s;
  s.mechanism = mechanism;
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.queries = 9;
  s.keys = 12;
  s.key_dim = 5;
  s.value_dims = {3, 6};
  return s;
}

class CApi : public testing::TestWithParam<std::string> {};

TEST_P(CApi, SameBitsAsCpp) { expect_same_bits(small(GetParam())); }

TEST_P(CApi, SameBitsWithEverythingSet) {
  CaseSpec s = small(GetParam());
  s.dtype = rapt::Dtype::f32;
  s.softcap = 3;
  s.scale = 0.7;
  s.bias = support::BiasKind::per_head;
  s.mask = support::MaskKind::everything;
  s.layout = support::Layout::bshd;
  expect_same_bits(s);
  expect_same_bits(s, rapt::Path::reference);
}

TEST(CApiPlan, SameBitsAsCpp) {
  for (const char* mechanism : {"scaled_dot", "alibi", "t5"}) expect_same_plan(small(mechanism));
}

TEST(CApiArrays, WithoutElementsNeedNoMemory) {
  const rapt_array none = rapt_bhsd(nullptr, RAPT_F32, 1, 2, 0, 4);
  EXPECT_EQ(rapt_attend(&none, &none, &none, &none, nullptr), RAPT_OK) << rapt_last_error();
  const rapt_array some = rapt_bhsd(nullptr, RAPT_F32, 1, 2, 3, 4);
  EXPECT_EQ(rapt_attend(&some, &none, &none, &some, nullptr), RAPT_BAD_INPUT);
}

TEST(CApiPlan, Refuses) {
  float number = 0;
  const rapt_array one = rapt_bhsd(&number, RAPT_F32, 1, 1, 1, 1), two = rapt_bhsd(&number, RAPT_F32, 1, 1, 2, 1);
  rapt_inputs inputs;
  rapt_inputs_init(&inputs, sizeof inputs);
  inputs.q = inputs.k = one;
  inputs.v = &two;
  inputs.v_count = 1;
  rapt_outputs outputs;
  rapt_outputs_init(&outputs, sizeof outputs);
  outputs.out = &one;
  outputs.out_count = 1;
  rapt_plan* plan = nullptr;
  EXPECT_EQ(rapt_plan_create(&inputs, &outputs, nullptr, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_plan_create: plan: expected a pointer, got NULL");
  EXPECT_EQ(rapt_plan_create(&inputs, &outputs, nullptr, &plan), RAPT_BAD_INPUT);
  EXPECT_EQ(plan, nullptr);
  EXPECT_STREQ(rapt_last_error(), "Plan: v: expected 1 key as in k, got 2");
  EXPECT_EQ(rapt_plan_run(plan, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_plan_run: plan: expected a pointer, got NULL");
  rapt_plan_free(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Registry, CApi, testing::ValuesIn(support::registered_names()), support::mechanism_name);

TEST(CApiOptions, EveryMaskNormalizerPathAndType) {
  for (const support::MaskKind mask : support::all_masks()) {
    CaseSpec s = small("scaled_dot");
    s.mask = mask;
    expect_same_bits(s);
  }
  for (const rapt::Dtype dtype : support::all_dtypes()) {
    CaseSpec s = small("alibi");
    s.dtype = dtype;
    expect_same_bits(s);
    s.normalizer = support::NormalizerKind::argmax;
    expect_same_bits(s);
  }
  for (const rapt::Path path : {rapt::Path::generic, rapt::Path::reference}) expect_same_bits(small("quadratic"), path);
}

TEST(CApiArrays, HelpersGiveTheViewsOfCpp) {
  const std::vector<float> numbers(2 * 3 * 4 * 5);
  const auto same = [](const rapt_array& array, const rapt::ConstView& view) {
    const rapt_array expected = c_test::c_array(view);
    EXPECT_EQ(array.data, expected.data);
    EXPECT_EQ(array.dtype, expected.dtype);
    for (int n = 0; n < 4; ++n) {
      EXPECT_EQ(array.shape[n], expected.shape[n]);
      EXPECT_EQ(array.strides[n], expected.strides[n]);
    }
  };
  same(rapt_bhsd(numbers.data(), RAPT_F32, 2, 3, 4, 5), rapt::view(numbers.data(), {2, 3, 4, 5}));
  same(rapt_bshd(numbers.data(), RAPT_F32, 2, 4, 3, 5), rapt::view_bshd(numbers.data(), 2, 4, 3, 5));
}

TEST(CApiArrays, PlainCallIsScaledDot) {
  const std::vector<float> q{1, 2, 3, 4}, k{0.5, 1, -1, 2, 0, 1}, v{1, 2, 3};
  std::vector<float> expected(2), got(2);
  rapt::attend(rapt::view(q.data(), {2, 2}), rapt::view(k.data(), {3, 2}), rapt::view(v.data(), {3, 1}),
               rapt::view(expected.data(), {2, 1}));
  const rapt_array qa = rapt_bhsd(q.data(), RAPT_F32, 1, 1, 2, 2), ka = rapt_bhsd(k.data(), RAPT_F32, 1, 1, 3, 2),
                   va = rapt_bhsd(v.data(), RAPT_F32, 1, 1, 3, 1), oa = rapt_bhsd(got.data(), RAPT_F32, 1, 1, 2, 1);
  ASSERT_EQ(rapt_attend(&qa, &ka, &va, &oa, nullptr), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(got, expected);
  rapt_options options{};
  options.struct_size = sizeof options;
  got.assign(2, 0);
  ASSERT_EQ(rapt_attend(&qa, &ka, &va, &oa, &options), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(got, expected);
}

int lent_calls = 0;

// Alone, one worker after the other: a host need not have more.
void lend_one_thread(int32_t workers, void (*work)(void*, int), void* job) {
  ++lent_calls;
  for (int32_t worker = 0; worker < workers; ++worker) work(job, worker);
}

TEST(CApiThreads, AHostLendsItsThreads) {
  constexpr int64_t kHeads = 8, kLength = 96, kDim = 32;
  std::vector<float> q(kHeads * kLength * kDim), expected(q.size()), got(q.size());
  for (std::size_t n = 0; n < q.size(); ++n) q[n] = static_cast<float>(n % 17) / 8 - 1;
  const auto array = [&](std::vector<float>& x) { return rapt_bhsd(x.data(), RAPT_F32, 1, kHeads, kLength, kDim); };
  const rapt_array in = array(q), first = array(expected), second = array(got);
  rapt_options options;
  rapt_options_init(&options, sizeof options);
  options.threads = 2;
  ASSERT_EQ(rapt_attend(&in, &in, &in, &first, &options), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(lent_calls, 0);
  rapt_use_host_threads(lend_one_thread);
  ASSERT_EQ(rapt_attend(&in, &in, &in, &second, &options), RAPT_OK) << rapt_last_error();
  rapt_use_host_threads(nullptr);
  const int calls = lent_calls;
  EXPECT_GT(calls, 0);
  EXPECT_EQ(got, expected);
  ASSERT_EQ(rapt_attend(&in, &in, &in, &second, &options), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(lent_calls, calls);
}

TEST(CApiInfo, NamesMechanismsVersionAndThreads) {
  const auto all = rapt::all_mechanisms();
  ASSERT_EQ(rapt_mechanism_count(), all.size());
  for (std::size_t n = 0; n < all.size(); ++n) {
    EXPECT_EQ(rapt_mechanism_name(n), std::string(all[n]->name()));
    EXPECT_EQ(rapt_mechanism_formula(n), std::string(all[n]->formula()));
  }
  EXPECT_EQ(rapt_mechanism_name(all.size()), nullptr);
  EXPECT_EQ(rapt_mechanism_formula(all.size()), nullptr);
  EXPECT_STREQ(rapt_isa(), rapt::name_of(rapt::active_isa()));
  EXPECT_EQ(std::string(rapt_version()), std::to_string(RAPT_VERSION_MAJOR) + "." + std::to_string(RAPT_VERSION_MINOR) +
                                             "." + std::to_string(RAPT_VERSION_PATCH));
  const int32_t before = rapt_threads();
  EXPECT_EQ(rapt_set_threads(3), RAPT_OK);
  EXPECT_EQ(rapt_threads(), 3);
  EXPECT_EQ(rapt::default_threads(), 3);
  EXPECT_EQ(rapt_set_threads(0), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("expected 1 or more, got 0"), std::string::npos) << rapt_last_error();
  EXPECT_EQ(rapt_threads(), 3);
  EXPECT_EQ(rapt_set_threads(before), RAPT_OK);
  rapt_release_workspace();
  rapt_release_workspace();
}

TEST(CApiInfo, WhatMechanismsTake) {
  const auto all = rapt::all_mechanisms();
  for (std::size_t m = 0; m < all.size(); ++m) {
    SCOPED_TRACE(all[m]->name());
    EXPECT_EQ(rapt_mechanism_has_grid(m) != 0, all[m]->grid());
    ASSERT_EQ(rapt_mechanism_parameter_count(m), all[m]->parameters().size());
    for (std::size_t n = 0; n < all[m]->parameters().size(); ++n) {
      const rapt::ParameterSpec& spec = all[m]->parameters()[n];
      const rapt_parameter_info* info = rapt_mechanism_parameter(m, n);
      ASSERT_NE(info, nullptr);
      EXPECT_EQ(info->name, std::string(spec.name));
      EXPECT_NE(info->about[0], '\0');
      EXPECT_EQ(info->heads, static_cast<int32_t>(spec.heads));
      EXPECT_EQ(info->required != 0, spec.required);
    }
    EXPECT_EQ(rapt_mechanism_parameter(m, all[m]->parameters().size()), nullptr);
    ASSERT_EQ(rapt_mechanism_setting_count(m), all[m]->settings().size());
    for (std::size_t n = 0; n < all[m]->settings().size(); ++n) {
      const rapt::SettingSpec& spec = all[m]->settings()[n];
      const rapt_setting_info* info = rapt_mechanism_setting(m, n);
      ASSERT_NE(info, nullptr);
      EXPECT_EQ(info->name, std::string(spec.name));
      EXPECT_EQ(info->value, spec.value);
      EXPECT_EQ(info->low, spec.low);
      EXPECT_EQ(info->high, spec.high);
      EXPECT_EQ(info->integer != 0, spec.integer);
    }
    EXPECT_EQ(rapt_mechanism_setting(m, all[m]->settings().size()), nullptr);
  }
  EXPECT_EQ(rapt_mechanism_has_grid(all.size()), 0);
  EXPECT_EQ(rapt_mechanism_parameter_count(all.size()), 0u);
  EXPECT_EQ(rapt_mechanism_parameter(all.size(), 0), nullptr);
  EXPECT_EQ(rapt_mechanism_setting_count(all.size()), 0u);
  EXPECT_EQ(rapt_mechanism_setting(all.size(), 0), nullptr);
}

TEST(CApiInfo, MechanismsAreFoundByName) {
  size_t index = 99;
  for (std::size_t m = 0; m < rapt_mechanism_count(); ++m) {
    EXPECT_EQ(rapt_mechanism_find(rapt_mechanism_name(m), &index), RAPT_OK);
    EXPECT_EQ(index, m);
  }
  ASSERT_EQ(rapt_mechanism_find("additive", &index), RAPT_OK);
  EXPECT_STREQ(rapt_mechanism_parameter(index, 0)->name, "w");
  EXPECT_STREQ(rapt_mechanism_parameter(index, 0)->shape, "[H?,A]");
  EXPECT_EQ(rapt_mechanism_parameter(index, 0)->heads, RAPT_HEADS_OPTIONAL);
  EXPECT_EQ(rapt_mechanism_parameter(index, 0)->required, 1);
  EXPECT_STREQ(rapt_mechanism_parameter(index, 1)->shape, "[H?,Dq,A]");
  EXPECT_EQ(rapt_mechanism_parameter(index, 1)->required, 0);
  ASSERT_EQ(rapt_mechanism_find("alibi", &index), RAPT_OK);
  EXPECT_STREQ(rapt_mechanism_parameter(index, 0)->shape, "[H]");
  EXPECT_EQ(rapt_mechanism_parameter(index, 0)->heads, RAPT_HEADS_REQUIRED);
  ASSERT_EQ(rapt_mechanism_find("t5", &index), RAPT_OK);
  EXPECT_STREQ(rapt_mechanism_setting(index, 0)->name, "max_distance");
  EXPECT_EQ(rapt_mechanism_setting(index, 0)->value, 128);

  const size_t before = index;
  EXPECT_EQ(rapt_mechanism_find("no_such_mechanism", &index), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("no_such_mechanism"), std::string::npos) << rapt_last_error();
  EXPECT_EQ(index, before);
  EXPECT_EQ(rapt_mechanism_find(nullptr, &index), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("name: expected a pointer, got NULL"), std::string::npos)
      << rapt_last_error();
  EXPECT_EQ(rapt_mechanism_find("dot", nullptr), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("mechanism: expected a pointer, got NULL"), std::string::npos)
      << rapt_last_error();
}

TEST(CApiInfo, WhatNormalizersTake) {
  const auto all = rapt::all_normalizers();
  ASSERT_EQ(rapt_normalizer_count(), all.size());
  for (std::size_t m = 0; m < all.size(); ++m) {
    SCOPED_TRACE(all[m].name);
    EXPECT_EQ(rapt_normalizer_name(m), std::string(all[m].name));
    EXPECT_EQ(rapt_normalizer_formula(m), std::string(all[m].formula));
    ASSERT_EQ(rapt_normalizer_parameter_count(m), all[m].parameters.size());
    for (std::size_t n = 0; n < all[m].parameters.size(); ++n)
      EXPECT_EQ(rapt_normalizer_parameter(m, n)->name, std::string(all[m].parameters[n].name));
    EXPECT_EQ(rapt_normalizer_parameter(m, all[m].parameters.size()), nullptr);
  }
  ASSERT_EQ(rapt_normalizer_parameter_count(RAPT_SOFTMAX), 1u);
  EXPECT_STREQ(rapt_normalizer_parameter(RAPT_SOFTMAX, 0)->name, "sink");
  EXPECT_EQ(rapt_normalizer_parameter(RAPT_SOFTMAX, 0)->required, 0);
  EXPECT_EQ(rapt_normalizer_name(all.size()), nullptr);
  EXPECT_EQ(rapt_normalizer_formula(all.size()), nullptr);
  EXPECT_EQ(rapt_normalizer_parameter_count(all.size()), 0u);
  EXPECT_EQ(rapt_normalizer_parameter(all.size(), 0), nullptr);
}

}  // namespace
