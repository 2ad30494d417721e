#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rapt/normalizer.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

TEST(CliList, ListsEverythingInJson) {
  const CliResult done = run_cli({"list", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json all = Json::parse(done.out);
  std::vector<std::string> keys;
  for (const auto& [key, value] : all.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"devices", "encodings", "masks", "mechanisms", "normalisers", "tasks"}));
  EXPECT_EQ(all["devices"][0]["name"], "cpu");
  const auto find = [&](const std::string& name) {
    for (const Json& entry : all["mechanisms"])
      if (entry["name"] == name) return entry;
    return Json();
  };
  EXPECT_EQ(find("bilinear")["parameters"][0]["shape"], "[H?,Dq,Dk]");
  EXPECT_EQ(find("additive")["parameters"][1]["required"], false);
  EXPECT_EQ(find("t5")["settings"][0]["default"], 128);
  EXPECT_EQ(find("t5")["parameters"][0]["shape"], "[H,buckets]");
  EXPECT_EQ(find("shaw")["parameters"][0]["shape"], "[2c+1,Dk]");
  EXPECT_EQ(find("gaussian")["parameters"][1]["shape"], "[H,2,2]");
  EXPECT_EQ(find("transformer_xl")["parameters"][0]["shape"], "[H?,R,Dk]");
  for (const Json& entry : all["mechanisms"]) EXPECT_FALSE(entry["formula"].get<std::string>().empty()) << entry;
  EXPECT_EQ(all["encodings"].size(), 12u);  // rotary, seven mechanisms, four that a Transformer adds
  std::set<std::string> tasks;
  for (const auto& task : all["tasks"]) tasks.insert(task["name"].get<std::string>());
  for (const char* name : {"reverse", "case", "pairs", "scenes", "digits", "shapes", "cifar10", "cifar100", "mnist"})
    EXPECT_TRUE(tasks.contains(name)) << name;
  EXPECT_EQ(all["tasks"][0]["name"], "reverse");
  ASSERT_EQ(all["normalisers"].size(), all_normalizers().size());
  for (std::size_t n = 0; n < all["normalisers"].size(); ++n) {
    const Json& entry = all["normalisers"][n];
    const NormalizerInfo& info = all_normalizers()[n];
    EXPECT_EQ(entry["name"], info.name);
    EXPECT_EQ(entry["formula"], info.formula);
    EXPECT_EQ(entry["option"], "--normalize " + std::string(info.name));
    ASSERT_EQ(entry["parameters"].size(), info.parameters.size());
    for (std::size_t p = 0; p < info.parameters.size(); ++p)
      EXPECT_EQ(entry["parameters"][p]["name"], info.parameters[p].name);
  }
  EXPECT_EQ(all["normalisers"][0]["parameters"][0]["name"], "sink");
  EXPECT_FALSE(all["masks"].empty());
}

TEST(CliList, PrintsAlignedTables) {
  const CliResult done = run_cli({"list"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (const char* text : {"scaled_dot", "q·k / √Dk", "W [H?,Dq,Dk]", "softmax", "--window L,R", "max_distance=128"})
    EXPECT_NE(done.out.find(text), std::string::npos) << text;
  const CliResult json = run_cli({"list", "--json"});
  const Json listed = Json::parse(json.out);  // a range-for does not keep what a temporary holds
  for (const Json& entry : listed.at("mechanisms"))
    EXPECT_NE(done.out.find("\n" + entry["name"].get<std::string>() + " "), std::string::npos) << entry["name"];
  for (const NormalizerInfo& info : all_normalizers()) {
    EXPECT_NE(done.out.find("\n" + std::string(info.name) + " "), std::string::npos) << info.name;
    EXPECT_NE(done.out.find(info.formula), std::string::npos) << info.name;
  }
}

TEST(CliHelp, ExplainsItself) {
  const CliResult version = run_cli({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("rapt ") && version.out.find('.') != std::string::npos) << version.out;
  const CliResult overview = run_cli({"--help"});
  EXPECT_EQ(overview.status, 0);
  for (const char* text : {"list", "attend", "solve", "count", "bench", "train", "evaluate", "decode", "plot", "conv",
                           "Examples:", "Exit status: 0"})
    EXPECT_NE(overview.out.find(text), std::string::npos) << text;
  for (const char* verb : {"list", "attend", "train", "evaluate", "decode"}) {
    const CliResult help = run_cli({verb, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_NE(help.out.find(std::string("rapt ") + verb), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("Example"), std::string::npos);
  }
  const CliResult attend = run_cli({"attend", "--help"});
  for (const char* option :
       {"--q",         "--k",      "--v",       "--out",         "--score", "--param",  "--scale",   "--softcap",
        "--normalize", "--causal", "--window",  "--key-lengths", "--mask",  "--bias",   "--weights", "--stats",
        "--grad",      "--dtype",  "--threads", "--reference",   "--json",  "--device", "--rotary",  "--first-query"})
    EXPECT_NE(attend.out.find(option), std::string::npos) << option;
  for (const NormalizerInfo& info : all_normalizers())
    EXPECT_NE(attend.out.find(info.name), std::string::npos) << info.name;
}

}  // namespace
}  // namespace rapt::test
