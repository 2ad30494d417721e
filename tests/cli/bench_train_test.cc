// What `rapt bench train` prints and refuses. Speed is not tested.

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "benchmarks/training.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

TEST(CliBenchTrain, MeasuresEveryModelTrainingAndDecoding) {
  const CliResult done = run_cli({"bench", "train", "--quick", "--json", "--threads", "2"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  std::set<std::pair<std::string, std::string>> seen;
  const Json all = Json::parse(done.out);
  for (const Json& row : all["rows"]) {
    seen.emplace(row["name"], row["direction"]);
    for (const char* key : {"seconds", "tokens_per_second", "all_tokens_per_second", "sequences_per_second",
                            "sgemm_rate", "processor_seconds", "gflops", "fraction", "loss", "parameters"}) {
      ASSERT_TRUE(row.contains(key)) << key << " in " << row;
      EXPECT_TRUE(std::isfinite(row[key].get<double>())) << key << " in " << row;
      EXPECT_GT(row[key].get<double>(), 0) << key << " in " << row;
    }
    EXPECT_EQ(row["threads"], 2);
    const auto seconds = row["seconds"].get<double>();
    EXPECT_LE(row["spread"][0].get<double>(), seconds);
    EXPECT_GE(row["spread"][1].get<double>(), seconds);
    const auto [sequences, source, target] = row["shape"].get<std::tuple<double, double, double>>();
    EXPECT_NEAR(row["tokens_per_second"].get<double>() * seconds, sequences * target, 1e-6);
    EXPECT_NEAR(row["all_tokens_per_second"].get<double>() * seconds, sequences * (source + target), 1e-6);
    EXPECT_NEAR(row["fraction"].get<double>(), row["gflops"].get<double>() / row["sgemm_rate"].get<double>(), 1e-9);
  }
  EXPECT_EQ(seen.size(), 2 * bench::training_names().size());
  for (const std::string& name : bench::training_names())
    for (const char* direction : {"train", "decode"}) EXPECT_TRUE(seen.contains({name, direction})) << name;
}

TEST(CliBenchTrain, OneModelAsATable) {
  const CliResult done = run_cli({"bench", "train", "small_lstm", "--quick"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_NE(done.out.find("tokens/s"), std::string::npos);
  EXPECT_NE(done.out.find("small_lstm"), std::string::npos);
  EXPECT_EQ(done.out.find("medium_lstm"), std::string::npos);
}

TEST(CliBenchTrain, CountsMultiplyAdds) {
  bench::TrainingCase spec;
  spec.source = 2;
  spec.target = 1;
  spec.letters = 3;
  spec.model.seq2seq.embedding = 5;
  spec.model.seq2seq.hidden = 2;
  // Two source steps, the first without a state before it; two target steps; 2·2 pairs; combining; 7 symbols.
  const double each = 2 * 5 * 8 + 1 * 2 * 8 + 2 * (5 + 2) * 8 + 2 * 4 * 2 + 2 * 4 * 2 + 2 * 2 * 7;
  EXPECT_EQ(spec.multiply_adds(1), each);
  EXPECT_EQ(spec.multiply_adds(3), 3 * each);
}

TEST(CliBenchTrain, Refuses) {
  const auto refuses = [](std::vector<std::string> words, const char* why) {
    const CliResult done = run_cli(std::move(words));
    EXPECT_EQ(done.status, 2);
    EXPECT_NE(done.err.find(why), std::string::npos) << done.err;
  };
  refuses({"bench", "train", "huge_lstm"}, "small_transformer");
  refuses({"bench", "train", "--shape", "1,2,3,4"}, "--shape");
  refuses({"bench", "train", "--dtype", "f64"}, "--dtype");
}

}  // namespace
}  // namespace rapt::test
