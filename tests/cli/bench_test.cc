// What `rapt bench` prints and refuses. Speed is not tested.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "benchmarks/check.h"
#include "benchmarks/process_memory.h"
#include "benchmarks/rows.h"
#include "rapt/registry.h"
#include "support/sanitized.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words quick(Words more) {
  Words words{"bench", "--quick", "--json", "--threads", "2", "--shape", "1,2,64,16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_sane(const Json& row) {
  for (const char* key : {"name", "mechanism", "direction", "shape", "threads", "isa", "seconds", "rate", "sgemm_rate",
                          "fraction", "naive_ratio", "peak_bytes", "unit", "spread", "kernel_rate"})
    ASSERT_TRUE(row.contains(key)) << key << " in " << row;
  for (const char* key : {"seconds", "rate", "sgemm_rate", "fraction", "kernel_rate", "gflops"}) {
    EXPECT_TRUE(std::isfinite(row[key].get<double>())) << key << " in " << row;
    EXPECT_GT(row[key].get<double>(), 0) << key << " in " << row;
  }
  EXPECT_LT(row["seconds"].get<double>(), 10) << row;
  EXPECT_NEAR(row["fraction"].get<double>(), row["gflops"].get<double>() / row["sgemm_rate"].get<double>(), 1e-6)
      << row;
  EXPECT_LE(row["spread"][0].get<double>(), row["seconds"].get<double>());
  EXPECT_GE(row["spread"][1].get<double>(), row["seconds"].get<double>());
  EXPECT_EQ(row["threads"], 2);
  EXPECT_TRUE(row["naive_ratio"].is_null() || row["naive_ratio"].get<double>() > 0) << row;
  EXPECT_TRUE(row["peak_bytes"].is_null() || row["peak_bytes"].get<double>() >= 0) << row;
}

TEST(CliBench, MeasuresEveryMechanismBothWays) {
  const CliResult done = run_cli(quick({}));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  const Json all = Json::parse(done.out);
  for (const char* roof : {"fma_peak", "kernel_rate", "sgemm_rate", "copy_bandwidth", "read_bandwidth"})
    EXPECT_GT(all["roofs"][roof].get<double>(), 0) << roof;
  std::set<std::string> forward, backward;
  for (const Json& row : all["rows"]) {
    expect_sane(row);
    (row["direction"] == "forward" ? forward : backward).insert(row["name"].get<std::string>());
  }
  for (const std::string& name : bench::known_names()) EXPECT_TRUE(forward.contains(name)) << name;
  for (const MechanismInfo* info : all_mechanisms())
    EXPECT_TRUE(backward.contains(std::string(info->name()))) << info->name();
}

TEST(CliBench, KeepsToWhatIsAsked) {
  const CliResult done = run_cli(quick({"causal", "decode", "additive", "--shape", "2,1,33,8", "--direction", "forward",
                                        "--repeat", "4", "--no-naive", "--dtype", "f64"}));
  ASSERT_EQ(done.status, 0) << done.err;
  const Json rows = Json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 6u);
  for (const Json& row : rows) {
    expect_sane(row);
    EXPECT_EQ(row["direction"], "forward");
    EXPECT_EQ(row["runs"], 4);
    EXPECT_EQ(row["dtype"], "f64");
    EXPECT_TRUE(row["naive_ratio"].is_null());
    EXPECT_EQ(row["unit"], row["name"] == "additive" ? "G pairs/s" : "GFLOP/s");
    EXPECT_EQ(row["bandwidth"].is_null(), row["name"] != "decode");
    EXPECT_EQ(row["mechanism"], row["name"] == "additive" ? "additive" : "scaled_dot");
  }
  EXPECT_EQ(rows[1]["shape"], Json({2, 1, 33, 8}));
}

TEST(CliBench, CountsVisiblePairs) {
  bench::Spec spec;
  spec.sizes = {2, 3, 5, 4};
  EXPECT_EQ(spec.visible_pairs(), 150);
  spec.causal = Causal::top_left;
  EXPECT_EQ(spec.visible_pairs(), 90);
  spec.causal = Causal::none;
  spec.window = Window{1, 1};
  EXPECT_EQ(spec.visible_pairs(), 78);
  EXPECT_EQ(bench::Workload(spec, 1).flops(bench::Direction::forward), 4 * 78 * 4);
  EXPECT_EQ(bench::Workload(spec, 1).flops(bench::Direction::backward), 10 * 78 * 4);
}

TEST(CliBench, PrintsTheRoofsAndATable) {
  const CliResult done = run_cli({"bench", "--quick", "alibi", "--shape", "1,1,40,8"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (const char* text : {"sgemm", "GFLOP/s", "GB/s", "of sgemm", "alibi", "forward", "backward", "1,1,40,8"})
    EXPECT_NE(done.out.find(text), std::string::npos) << text << "\n" << done.out;
  EXPECT_LT(done.out.find("sgemm 512"), done.out.find("alibi"));
}

TEST(CliBench, RefusesBadArguments) {
  const auto refuses = [](const Words& words, const std::string& part) {
    const CliResult done = run_cli(words);
    EXPECT_EQ(done.status, 2) << done.out << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_NE(done.err.find(part), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  refuses({"bench", "cubic"}, "window256");
  refuses({"bench", "memory", "cubic"}, "scaled_dot");
  refuses({"bench", "growth", "causal"}, "scaled_dot");
  refuses({"bench", "scaled_dot", "memory"}, "memory");
  refuses({"bench", "--shape", "1,2,3"}, "--shape");
  refuses({"bench", "--shape", "1,0,3,4"}, "--shape");
  refuses({"bench", "--shape", "1,8,x,64"}, "--shape");
  refuses({"bench", "--shape", "16777216,16777216,16777216,64"}, "memory");
  refuses({"bench", "--shape", "--json"}, "--shape");
  refuses({"bench", "--threads", "0"}, "--threads");
  refuses({"bench", "--direction", "sideways"}, "expected forward, backward or both");
  refuses({"bench", "--dtype", "f8"}, "bf16");
  refuses({"bench", "--repeat", "0"}, "--repeat");
  refuses({"bench", "--fast"}, "bench");
  refuses({"bench", "calls", "x"}, "no further names");
  refuses({"bench", "calls", "--threads", "2"}, "--threads");
  refuses({"bench", "calls", "--dtype", "bf16"}, "expected f32, got bf16");
}

TEST(CliBench, ReportsMemory) {
  const CliResult done = run_cli({"bench", "memory", "scaled_dot", "quadratic", "--shape", "1,2,512,32", "--json"});
  ASSERT_TRUE(done.status == 0 || support::kSanitized) << done.err;
  const Json rows = Json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    const auto number = [&](const char* key) { return row[key].get<std::int64_t>(); };
    // q, k, v, out and the gradients of all four, and the small parameters.
    EXPECT_GE(number("array_bytes"), 8 * 2 * 512 * 32 * 4);
    EXPECT_LT(number("array_bytes"), 8 * 2 * 512 * 32 * 4 + 1000);
    EXPECT_EQ(number("extra_bytes"), number("peak_bytes") - number("baseline_bytes") - number("array_bytes"));
    EXPECT_EQ(number("limit_bytes"), 64 << 20);
    EXPECT_EQ(row["within"].get<bool>(), number("extra_bytes") <= number("limit_bytes"));
    EXPECT_GT(number("peak_bytes"), number("baseline_bytes"));
  }
}

TEST(CliBench, ReportsGrowth) {
  const CliResult done = run_cli({"bench", "growth", "quadratic", "--quick", "--shape", "1,1,512,8", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json rows = Json::parse(done.out)["rows"];
  ASSERT_GE(rows.size(), 2u);
  EXPECT_EQ(rows[0]["shape"], Json({1, 1, 256, 8}));
  EXPECT_TRUE(rows[0]["growth"].is_null());
  for (const Json& row : rows) EXPECT_GT(row["seconds"].get<double>(), 0);
}

// A touched block must count, and earlier memory must not.
TEST(CliBench, SeesPeaks) {
  if (support::kSanitized) GTEST_SKIP() << "sanitizers keep freed memory";
  constexpr std::size_t kBlock = 32 << 20;
  const auto touch = [] {
    std::vector<char> block(kBlock, 1);
    EXPECT_EQ(block[kBlock / 2], 1);
  };
  for (int again = 0; again < 2; ++again) {
    const auto growth = bench::peak_growth(touch);
    if (!growth) GTEST_SKIP() << "the peak of memory cannot be measured here";
    EXPECT_GT(*growth, static_cast<std::int64_t>(kBlock) * 9 / 10);
    EXPECT_LT(*growth, static_cast<std::int64_t>(kBlock) * 11 / 10);
  }
  EXPECT_LT(bench::peak_growth([] {}).value_or(0), 1 << 20);
}

// The checks before the timing: right results pass, one wrong number does not.
class BenchChecks : public testing::TestWithParam<std::string> {
 protected:
  static bench::Workload made(bench::Direction direction) {
    bench::Plan plan;
    plan.names = {GetParam()};
    plan.shapes = {{2, 2, 60, 8}};
    bench::Workload workload(rows_of(plan).front().spec, 2);
    if (direction == bench::Direction::forward) {
      workload.forward(workload.spec.path);
    } else {
      workload.prepare_backward(workload.spec.path);
      workload.backward(workload.spec.path);
    }
    return workload;
  }

  static void spoil(Array& array, std::size_t place) {
    switch (array.type()) {
      case ElementType::f64: array.as<double>()[place] += 0.5; break;
      case ElementType::bf16:
        array.as<BFloat16>()[place] = to_bfloat16(to_float(array.as<BFloat16>()[place]) + 0.5f);
        break;
      case ElementType::f16:
        array.as<Float16>()[place] = to_float16(to_float(array.as<Float16>()[place]) + 0.5f);
        break;
      default: array.as<float>()[place] += 0.5f;
    }
  }
};

TEST_P(BenchChecks, FindAWrongOutput) {
  bench::Workload workload = made(bench::Direction::forward);
  EXPECT_NO_THROW(check_rows(workload, bench::Direction::forward));
  EXPECT_NO_THROW(check_small(workload.spec, bench::Direction::forward, 2));
  spoil(workload.out[0], 3);
  EXPECT_THROW(check_rows(workload, bench::Direction::forward), bench::WrongResult);
}

class BenchGradientChecks : public BenchChecks {};

TEST_P(BenchGradientChecks, FindAWrongGradient) {
  bench::Workload workload = made(bench::Direction::backward);
  EXPECT_NO_THROW(check_rows(workload, bench::Direction::backward));
  EXPECT_NO_THROW(check_small(workload.spec, bench::Direction::backward, 2));
  bench::Workload other = made(bench::Direction::backward);
  spoil(workload.dq, 0);
  EXPECT_THROW(check_rows(workload, bench::Direction::backward), bench::WrongResult);
  if (other.spec.dtype == Dtype::bf16) return;
  for (std::size_t n = 0; n < 200; ++n) spoil(other.dv[0], n);
  EXPECT_THROW(check_rows(other, bench::Direction::backward), bench::WrongResult);
}

std::string name_of_row(const testing::TestParamInfo<std::string>& row) { return row.param; }

// Those with a backward row.
std::vector<std::string> differentiated_names() {
  bench::Plan plan;
  plan.shapes = {{1, 1, 1, 1}};
  plan.directions = {bench::Direction::backward};
  std::vector<std::string> names;
  for (const bench::Row& row : rows_of(plan)) names.push_back(row.spec.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Rows, BenchChecks, testing::ValuesIn(bench::known_names()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Rows, BenchGradientChecks, testing::ValuesIn(differentiated_names()), name_of_row);

TEST(CliBench, TimesALoopACallAndAPlan) {
  const CliResult done = run_cli({"bench", "calls", "--quick", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json rows = Json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["keys"], 8);
  for (const Json& row : rows)
    EXPECT_NEAR(row["plan_ratio"].get<double>(), row["plan_seconds"].get<double>() / row["loop_seconds"].get<double>(),
                1e-9);
}

}  // namespace
}  // namespace rapt::test
