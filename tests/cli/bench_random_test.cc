// `rapt bench --random`: the shapes it draws, what it prints and what it refuses. Speed is not tested.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "benchmarks/check.h"
#include "benchmarks/random_shapes.h"
#include "rapt/threads.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::vector<std::int64_t> numbers_of(const bench::Spec& s) {
  return {s.sizes.batch, s.sizes.heads, s.key_head_count(), s.query_count(), s.sizes.keys, s.sizes.dim};
}

TEST(RandomShapes, ASeedIsTheSameEverywhere) {
  // Recorded: another machine, compiler or library must draw the same.
  const std::vector<std::vector<std::int64_t>> expected{
      {326, 5, 5, 22, 22, 16},    {4, 7, 7, 229, 229, 32},    {3, 12, 12, 41, 8000, 88}, {2, 3, 1, 1, 5606, 80},
      {32, 12, 12, 368, 368, 64}, {1, 1, 1, 4600, 4600, 256}, {2, 4, 4, 1644, 1644, 96}, {1, 2, 2, 2756, 2756, 80}};
  const auto drawn = bench::random_specs(8, 1);
  for (std::size_t n = 0; n < expected.size(); ++n) EXPECT_EQ(numbers_of(drawn[n]), expected[n]) << n;
  const auto longer = bench::random_specs(100, 1), other = bench::random_specs(8, 2);
  for (std::size_t n = 0; n < 8; ++n) EXPECT_EQ(numbers_of(longer[n]), expected[n]) << n;
  EXPECT_NE(numbers_of(other[0]), expected[0]);
}

TEST(RandomShapes, KindsAreWhatTheySay) {
  const auto specs = bench::random_specs(800, 3);
  std::map<std::string, int> counts;
  std::set<std::vector<std::int64_t>> different;
  for (const bench::Spec& s : specs) {
    ++counts[s.name];
    different.insert(numbers_of(s));
    EXPECT_EQ(s.sizes.heads % s.key_head_count(), 0);
    EXPECT_LE(4 * s.visible_pairs() * static_cast<double>(s.sizes.dim), 3e10) << s.name;
    if (s.name == "cross") {
      EXPECT_LT(s.query_count(), 100);
      EXPECT_GE(s.sizes.keys, 1000);
      EXPECT_NE(s.sizes.dim % 32, 0);
    }
    if (s.name == "grouped") {
      EXPECT_EQ(s.query_count(), 1);
      EXPECT_LT(s.key_head_count(), s.sizes.heads);
      EXPECT_LE(s.sizes.keys, 32000);
    }
    if (s.name == "short") {
      EXPECT_GE(s.sizes.batch, 32);
      EXPECT_LE(s.sizes.keys, 64);
    }
    EXPECT_EQ(s.causal != Causal::none, s.name == "causal");
  }
  ASSERT_EQ(counts.size(), bench::shape_kinds().size());
  for (const bench::ShapeKind& kind : bench::shape_kinds()) EXPECT_EQ(counts[std::string(kind.name)], 100) << kind.name;
  EXPECT_GT(different.size(), 780u);
}

// Groups of heads through the benchmark's own check: the right results pass, a wrong group does not.
TEST(RandomShapes, GroupsOfHeadsAreChecked) {
  bench::Spec spec;
  spec.name = "grouped";
  spec.sizes = {2, 6, 300, 24};
  spec.key_heads = 2;
  spec.queries = 1;
  for (const bench::Direction direction : {bench::Direction::forward, bench::Direction::backward}) {
    EXPECT_NO_THROW(bench::check_small(spec, direction, 2));
    bench::Workload workload(spec, 2);
    EXPECT_EQ(workload.k.shape(), (std::vector<std::int64_t>{2, 2, 300, 24}));
    workload.prepare_backward(spec.path);
    workload.backward(spec.path);
    EXPECT_NO_THROW(bench::check_rows(workload, direction));
    // A batch's first heads swapped with its last: each result is right, but for another group.
    Array& array = direction == bench::Direction::forward ? workload.out[0] : workload.dq;
    auto numbers = array.as<float>();
    std::rotate(numbers.begin(), numbers.begin() + 3 * 24, numbers.begin() + 6 * 24);
    EXPECT_THROW(bench::check_rows(workload, direction), bench::WrongResult);
  }
}

TEST(CliBenchRandom, PrintsItsShapesAlone) {
  const CliResult text = run_cli({"bench", "--random", "9", "--seed", "5", "--dry-run"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 10) << text.out;
  const CliResult done = run_cli(
      {"bench", "--random", "9", "--seed", "5", "--dry-run", "--json", "--threads", "1,1,1000", "--dtype", "bf16,f32"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json all = Json::parse(done.out);
  EXPECT_EQ(all["seed"], 5);
  EXPECT_EQ(all["threads"], Json({1}));
  EXPECT_EQ(all["threads_left_out"], Json({1000}));
  EXPECT_EQ(all["dtypes"], Json({"bf16", "f32"}));
  const auto specs = bench::random_specs(9, 5);
  ASSERT_EQ(all["shapes"].size(), 9u);
  for (std::size_t n = 0; n < 9; ++n) {
    const Json& shape = all["shapes"][n];
    EXPECT_EQ(shape["kind"], specs[n].name);
    EXPECT_TRUE(all["kinds"].contains(specs[n].name));
    std::vector<std::int64_t> got;
    for (const char* key : {"batch", "heads", "key_heads", "queries", "keys", "dim"}) got.push_back(shape[key]);
    EXPECT_EQ(got, numbers_of(specs[n]));
  }
}

TEST(CliBenchRandom, MeasuresAndSumsUp) {
  const CliResult done = run_cli({"bench", "--random", "2", "--seed", "9", "--quick", "--repeat", "2", "--json",
                                  "--threads", "1,2", "--direction", "forward", "--no-naive"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json all = Json::parse(done.out);
  const std::size_t counts = default_threads() >= 2 ? 2 : 1;
  ASSERT_EQ(all["rows"].size(), 2 * 2 * counts);
  EXPECT_EQ(all["roofs"].size(), counts);
  std::map<std::string, std::vector<double>> fractions;
  for (const Json& row : all["rows"]) {
    EXPECT_GT(row["seconds"].get<double>(), 0);
    EXPECT_EQ(row["runs"], 2);
    EXPECT_EQ(row["direction"], "forward");
    const auto group = [&](const std::string& kind) {
      return kind + row["dtype"].get<std::string>() + row["threads"].dump();
    };
    fractions[group(row["kind"])].push_back(row["fraction"]);
    fractions[group("all")].push_back(row["fraction"]);
  }
  ASSERT_EQ(all["summary"].size(), fractions.size());
  for (const Json& line : all["summary"]) {
    const auto& list =
        fractions[line["kind"].get<std::string>() + line["dtype"].get<std::string>() + line["threads"].dump()];
    ASSERT_EQ(line["rows"], list.size()) << line;
    const double low = *std::min_element(list.begin(), list.end()), high = *std::max_element(list.begin(), list.end());
    EXPECT_EQ(line["fraction"]["lowest"], low);
    EXPECT_NEAR(line["fraction"]["median"].get<double>(), (low + high) / 2, 1e-12);  // of one or two
    EXPECT_TRUE(line["naive_ratio"]["median"].is_null());
  }
}

TEST(CliBenchRandom, RefusesBadArguments) {
  const auto refuses = [](const Words& more, const std::string& part) {
    Words words{"bench"};
    words.insert(words.end(), more.begin(), more.end());
    const CliResult done = run_cli(words);
    EXPECT_EQ(done.status, 2) << done.out << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_NE(done.err.find(part), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  refuses({"--random", "0"}, "expected 1 to 100000, got '0'");
  refuses({"--random", "x"}, "got 'x'");
  refuses({"--random", "3", "--seed", "-1"}, "--seed");
  refuses({"--random", "3", "--seed", "x"}, "got 'x'");
  refuses({"--random", "3", "--threads", "1,none"}, "got 'none'");
  refuses({"--random", "3", "--threads", "1,,2"}, "--threads");
  refuses({"--random", "3", "--threads", "1000"}, "expected at most the");
  refuses({"--random", "3", "--dtype", "f32,f8"}, "got 'f8'");
  refuses({"--random", "3", "--shape", "1,2,3,4"}, "--random: expected no");
  refuses({"--random", "3", "causal"}, "--random: expected no");
  refuses({"--random", "3", "--device", "cuda"}, "expected cpu, got 'cuda'");
  refuses({"--random", "3", "--epochs", "2"}, "--epochs");
  refuses({"--dry-run"}, "expected --random N");
  refuses({"--seed", "3"}, "--random");
  refuses({"--threads", "1,2"}, "--threads");
}

}  // namespace
}  // namespace rapt::test
