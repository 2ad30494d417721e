// What `rapt bench --device cuda` measures and refuses. Without a GPU the same code runs on the CPU's memory.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "benchmarks/check.h"
#include "benchmarks/device_rows.h"
#include "benchmarks/device_workload.h"
#include "rapt/device.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool has_gpu() { return device_count(Device::Kind::cuda) > 0; }

void refuses(const Words& words, const std::string& part) {
  const CliResult done = run_cli(words);
  EXPECT_EQ(done.status, 2) << done.out << done.err;
  EXPECT_EQ(done.out, "");
  EXPECT_NE(done.err.find(part), std::string::npos) << done.err;
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
}

TEST(CliBenchDevice, RefusesWhatItCannotMeasure) {
  refuses({"bench", "--device", "tpu"}, "expected cpu or cuda");
  refuses({"bench", "--device", "cuda", "cubic"}, "expected a row (dot, scaled_dot, causal");
  refuses({"bench", "memory", "--device", "cuda"}, "got 'memory'");
  refuses({"bench", "--device", "cuda", "--dtype", "f64"}, "expected f32, bf16 or f16, got f64");
  refuses({"bench", "memory", "--device", "cuda", "--formula", "raw"}, "got 'memory'");
  refuses({"bench", "--device", "cuda", "--seeds", "2"}, "--seeds: expected multitask or images beside it");
  refuses({"bench", "--device", "cuda", "--repeat", "0"}, "--repeat");
}

TEST(CliBenchDevice, SaysWhatIsMissing) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  refuses({"bench", "--device", "cuda"}, "bench: --device cuda:0: cuda: ");
  refuses({"bench", "--device", "cuda", "--formula", "raw*scale"}, "bench: --device cuda:0: cuda: ");
}

TEST(CliBenchDevice, MeasuresAFormulaBesideTheMechanismItEquals) {
  bench::Plan plan;
  plan.formula = bench::FormulaRow{formula("20*tanh(raw*scale/20)"), "scaled_dot", 20};
  const std::vector<bench::Spec> alone = device_specs(plan);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].name, "formula");
  EXPECT_EQ(alone[0].dtype, Dtype::bf16);
  const std::optional<bench::Spec> same = compiled_of(alone[0]);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->softcap, 20);
  EXPECT_FALSE(same->formula);
  plan.names = {"scaled_dot"};
  plan.shapes = {{1, 1, 64, 16}};
  const std::vector<bench::Spec> both = device_specs(plan);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].name, "scaled_dot");
  EXPECT_FALSE(both[1].formula);
  // A pair is measured at the size of the mechanisms that have one.
  bench::Plan pairs;
  pairs.formula = bench::FormulaRow{formula("raw", {.pair = "w*tanh(q+k)", .visible = ""}), "additive"};
  const std::vector<bench::Spec> heavy = device_specs(pairs);
  ASSERT_EQ(heavy.size(), 1u);
  EXPECT_LT(heavy[0].sizes.keys, alone[0].sizes.keys);
  // From the same numbers: additive without its maps.
  bench::Spec small = heavy[0];
  small.sizes = {1, 2, 32, 8};
  small.dtype = Dtype::f32;
  bench::Workload ours(small, 1), theirs(*compiled_of(small), 1);
  EXPECT_EQ(theirs.parameters.size(), 1u);
  ours.forward(Path::automatic);
  theirs.forward(Path::automatic);
  const auto a = ours.out[0].as<float>(), b = theirs.out[0].as<float>();
  EXPECT_TRUE(std::ranges::equal(a, b));
}

TEST(CliBenchDevice, MeasuresOnAGpu) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const CliResult done = run_cli({"bench", "--device", "cuda", "--quick", "--json", "--shape", "1,2,200,64"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json all = Json::parse(done.out);
  for (const std::string& name : bench::device_names())
    EXPECT_TRUE(std::ranges::any_of(all["rows"], [&](const Json& row) { return row["name"] == name; })) << name;
  for (const Json& row : all["rows"])
    for (const char* key : {"seconds", "burst_seconds", "tflops", "burst_tflops"})
      EXPECT_GT(row[key].get<double>(), 0) << row;
}

TEST(CliBenchDevice, HasTheRowsOfTheTable) {
  bench::Plan plan;
  const std::vector<bench::Spec> specs = device_specs(plan);
  const auto has = [&](const std::string& name, std::int64_t length, std::int64_t dim, Dtype dtype) {
    return std::ranges::any_of(specs, [&](const bench::Spec& s) {
      return s.name == name && s.sizes.keys == length && s.sizes.dim == dim && s.dtype == dtype;
    });
  };
  for (const char* name : {"scaled_dot", "causal"}) {
    for (const std::int64_t dim : {64, 128, 256}) EXPECT_TRUE(has(name, 8192, dim, Dtype::bf16)) << name << dim;
    EXPECT_TRUE(has(name, 2048, 128, Dtype::bf16));
    EXPECT_TRUE(has(name, 512, 128, Dtype::bf16));
  }
  for (const char* name : {"odd", "odd_causal"}) {
    EXPECT_TRUE(has(name, 1000, 128, Dtype::bf16));
    EXPECT_TRUE(has(name, 2049, 128, Dtype::bf16));
    EXPECT_TRUE(has(name, 2048, 80, Dtype::bf16));
  }
  for (const char* name : {"alibi", "t5", "softcap", "gaussian", "quadratic"})
    EXPECT_TRUE(has(name, 8192, 128, Dtype::bf16)) << name;
  EXPECT_TRUE(has("additive", 2048, 64, Dtype::bf16));
  EXPECT_TRUE(has("decode", 131072, 128, Dtype::bf16));
  EXPECT_TRUE(has("f32", 2048, 128, Dtype::f32));
  for (const bench::Spec& s : specs) EXPECT_EQ(s.query_count() == 1, s.name == "decode");
}

TEST(CliBenchDevice, KeepsToThePlan) {
  bench::Plan plan;
  plan.names = {"causal", "decode"};
  plan.shapes = {{1, 2, 40, 8}, {1, 1, 9, 16}};
  plan.dtype = Dtype::f16;
  const std::vector<bench::Spec> specs = device_specs(plan);
  ASSERT_EQ(specs.size(), 4u);
  for (const bench::Spec& s : specs) EXPECT_EQ(s.dtype, Dtype::f16);
  EXPECT_EQ(specs[1].sizes.keys, 9);
  EXPECT_EQ(specs[0].causal, Causal::top_left);
}

// Copied to the device, computed and copied back: the same numbers as in ordinary memory.
class BenchDeviceWorkload : public testing::TestWithParam<std::string> {};

TEST_P(BenchDeviceWorkload, ComputesTheSame) {
  const Device device{has_gpu() ? Device::Kind::cuda : Device::Kind::cpu, 0};
  bench::Plan plan;
  plan.names = {GetParam()};
  plan.shapes = {{2, 2, 60, 16}};
  for (const bench::Spec& spec : device_specs(plan))
    for (const bench::Direction direction : {bench::Direction::forward, bench::Direction::backward}) {
      if (direction == bench::Direction::backward && (spec.normalizer == Normalizer::argmax || spec.queries == 1))
        continue;
      EXPECT_NO_THROW(check_small(spec, direction, 2, device));
      bench::DeviceWorkload workload(spec, device, 2);
      workload.prepare(direction);
      workload.run(direction);
      // Nothing arrives before it is requested.
      for (const bench::Workload::Named& result : workload.host().results(direction)) {
        const Array numbers = result.array->to(ElementType::f64);
        for (const double x : numbers.as<double>()) ASSERT_EQ(x, 0) << result.name;
      }
      workload.download(direction);
      EXPECT_NO_THROW(check_rows(workload.host(), direction));
    }
}

TEST_P(BenchDeviceWorkload, IsMeasured) {
  const Device device{has_gpu() ? Device::Kind::cuda : Device::Kind::cpu, 0};
  bench::Plan plan;
  plan.names = {GetParam()};
  plan.shapes = {{1, 2, 33, 8}};
  bench::DeviceEffort effort;
  effort.calls = 3;
  effort.rest = false;
  for (const bench::Spec& spec : device_specs(plan))
    for (const bench::DeviceMeasurement& m : measure_on_device(spec, plan, device, effort, nullptr)) {
      EXPECT_EQ(m.calls, 3);
      EXPECT_GT(m.seconds, 0);
      EXPECT_GT(m.burst_seconds, 0);
      EXPECT_TRUE(std::isfinite(m.tflops));
      EXPECT_FALSE(m.product_rate);
      EXPECT_EQ(m.bandwidth.has_value(), spec.queries == 1);
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, BenchDeviceWorkload, testing::ValuesIn(bench::device_names()),
                         [](const testing::TestParamInfo<std::string>& row) { return row.param; });

TEST(DeviceMemoryCopies, StayWithinTheMemory) {
  DeviceMemory from({}, 8), to({}, 4);
  const std::uint32_t number = 0x12345678;
  from.upload(&number, sizeof(number));
  to.copy_from(from, 4);
  std::uint32_t back = 0;
  to.download(&back, sizeof(back));
  EXPECT_EQ(back, number);
  EXPECT_THROW(to.copy_from(from, 5), Error);
}

TEST(DeviceTimers, CountForward) {
  DeviceTimer timer({});
  timer.start();
  volatile double x = 1;
  for (int n = 0; n < 100000; ++n) x = x * 1.0000001;
  timer.stop();
  EXPECT_GT(timer.seconds(), 0);
  EXPECT_LT(timer.seconds(), 60);
}

}  // namespace
}  // namespace rapt::test
