#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tensor/safetensors.h"
#include "tests/cli/live_cli.h"

// Hostile and damaged files: exit status 2, with the file's name.
namespace rapt::test {
namespace {

namespace fs = std::filesystem;

const std::string kDeep = std::string(200'000, '[') + std::string(200'000, ']');

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void expect_refused(const Words& words, const std::string& file, const std::string& part) {
  const CliResult result = run_cli(words);
  EXPECT_EQ(result.status, 2) << words[0] << " " << words[1] << ": " << result.err.substr(0, 300);
  EXPECT_TRUE(has(result.err, file)) << words[0] << ": " << result.err.substr(0, 300);
  EXPECT_TRUE(has(result.err, part)) << words[0] << ": " << result.err.substr(0, 300);
  EXPECT_LT(result.err.size(), 1000U) << words[0];
}

void expect_too_deep(const Words& words, const std::string& file) {
  expect_refused(words, file, "expected at most 32 levels of nesting, got more");
}

// With other metadata and the same arrays.
void change_metadata(const std::string& path, const std::function<void(std::map<std::string, std::string>&)>& change) {
  Safetensors file = read_safetensors(path);
  std::vector<NamedBytes> arrays;
  for (const NamedArray& one : file.arrays)
    arrays.push_back(
        {one.name, one.array.type(), one.array.shape(), reinterpret_cast<const std::byte*>(one.array.data())});
  change(file.metadata);
  write_safetensors(path, arrays, file.metadata);
}

TEST(HostileFiles, DeepSettingsAreRefused) {
  const TemporaryDirectory dir;
  const std::string config = dir / "run/config.json";
  write(config, R"({"format":1,"data":{"task":"reverse"},"model":)" + kDeep + "}");
  expect_too_deep({"evaluate", dir / "run"}, config);
  expect_too_deep({"explore", dir / "run", "--out", dir / "page.html"}, config);
  write(config, R"({"format":1,"data":)" + kDeep + "}");
  expect_too_deep({"decode", dir / "run", "abc"}, config);
  write(dir / "settings.json", R"({"data":)" + kDeep + "}");
  for (const char* task : {"reverse", "digits", "scenes"})
    expect_too_deep({"train", task, "--config", dir / "settings.json", "--out", dir / "new"}, dir / "settings.json");
  std::string objects;
  for (int n = 0; n < 100'000; ++n) objects += R"({"a":)";
  write(config, R"({"format":1,"data":)" + objects + "1" + std::string(100'000, '}') + "}");
  expect_too_deep({"evaluate", dir / "run"}, config);
  // Brackets in a string do not nest.
  write(dir / "text.json", R"({"model": {"kind": ")" + std::string(100, '[') + R"(\"[{"}})");
  expect_refused({"train", "reverse", "--config", dir / "text.json", "--out", dir / "new"}, dir / "text.json", "kind");
  EXPECT_FALSE(fs::exists(dir / "new"));
}

TEST(HostileFiles, DeepPicturesAreRefused) {
  const TemporaryDirectory dir;
  fs::create_directories(dir / "arrays");
  for (const char* name : {"q", "k"})
    save_f4(dir / ("arrays/" + std::string(name) + ".npy"), {4, 2}, pseudo_random(8, 1));
  write(dir / "arrays/mechanism.json", R"({"score":)" + kDeep + "}");
  expect_too_deep({"explore", dir / "arrays", "--out", dir / "page.html"}, "mechanism.json");
  write(dir / "arrays/mechanism.json", "{}");
  write(dir / "arrays/metrics.jsonl", R"({"centers":)" + kDeep + "}\n");
  expect_too_deep({"explore", dir / "arrays", "--grid", "2,2", "--out", dir / "page.html"}, "metrics.jsonl");
  std::string objects;
  for (int n = 0; n < 100'000; ++n) objects += R"({"a":)";
  write(dir / "deep.jsonl", "{\"loss\": 1}\n" + objects + "1" + std::string(100'000, '}') + "\n");
  expect_too_deep({"plot", "curves", dir / "deep.jsonl", "--out", dir / "a.svg"}, "deep.jsonl: line 2");
  write(dir / "deep.json", kDeep);
  for (const char* kind : {"bars", "scaling"})
    expect_too_deep({"plot", kind, dir / "deep.json", "--out", dir / "a.svg"}, "deep.json");
  write(dir / "report/results.json", kDeep);
  expect_refused({"reproduce", "--quick", "--out", dir / "report"}, "report", "got one that holds something else");
}

TEST(HostileFiles, DeepNumbersOfARunAreRefused) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_run(dir / "run")).status, 0);
  const std::string model = dir / "run/model.safetensors", state = dir / "run/state.safetensors";
  change_metadata(model, [](auto& metadata) { metadata["checksums"] = R"({"a":)" + kDeep + "}"; });
  expect_too_deep({"evaluate", dir / "run"}, model);
  change_metadata(state, [](auto& metadata) {
    metadata = {{"format", "rapt run 1"}, {"progress", R"({"epoch":)" + kDeep + "}"}};
  });
  expect_too_deep(small_run(dir / "run", {"--resume", "--epochs", "9"}), state);
  ASSERT_EQ(run_cli({"train", "shapes", "--train-size", "64", "--valid-size", "16", "--test-size", "16", "--epochs",
                     "1", "--out", dir / "shapes"})
                .status,
            0);
  write(dir / "shapes/metrics.jsonl", R"({"centers":[[[)" + kDeep + R"(,0]]],"covariances":1})");
  expect_too_deep({"plot", "centers", dir / "shapes", "--out", dir / "a.svg"}, "metrics.jsonl");
  expect_too_deep({"explore", dir / "shapes", "--out", dir / "a.html"}, "metrics.jsonl");
}

// Whatever bit of config.json flips.
TEST(HostileFiles, DamagedSettingsOfARunAreRefused) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_run(dir / "run")).status, 0);
  const std::string config = dir / "run/config.json", whole = text_of(config);
  ASSERT_TRUE(has(whole, "\"checksum\": \""));
  for (std::size_t n = 0; n < 60; ++n) {
    std::string text = whole;
    const std::size_t at = n * 7919 % whole.size();
    text[at] = static_cast<char>(text[at] ^ (1 << n % 7));
    write(config, text);
    const CliResult result = run_cli({"evaluate", dir / "run"});
    EXPECT_EQ(result.status, 2) << "byte " << at << ", bit " << n % 7 << ": " << whole.substr(at, 20);
    EXPECT_TRUE(has(result.err, config)) << result.err;
  }
  // A digit: the file still looks right.
  const std::size_t seed = whole.find("\"hidden\": ") + 10;
  std::string text = whole;
  text[seed] = text[seed] == '9' ? '8' : '9';
  write(config, text);
  const std::string part = "is damaged or was edited: expected the checksum";
  expect_refused({"evaluate", dir / "run"}, config, part);
  expect_refused({"decode", dir / "run", "abc"}, config, part);
  expect_refused(small_run(dir / "run", {"--resume", "--epochs", "9"}), config, part);
  // For a new run such a file is just settings, whoever edited it.
  EXPECT_EQ(run_cli({"train", "reverse", "--config", config, "--epochs", "1", "--out", dir / "new"}).status, 0);
  EXPECT_EQ(run_cli({"evaluate", dir / "new"}).status, 0);
  // Order and white space change nothing, and runs from before there were checksums have none.
  std::string spaces = whole;
  for (std::size_t at = 0; (at = spaces.find("\n", at)) != std::string::npos;) spaces.replace(at, 1, "\t ");
  write(config, spaces);
  EXPECT_EQ(run_cli({"evaluate", dir / "run"}).status, 0);
  const std::size_t sum = whole.find(",\n  \"checksum\"");
  ASSERT_NE(sum, std::string::npos);
  write(config, whole.substr(0, sum) + "\n}\n");
  EXPECT_EQ(run_cli({"evaluate", dir / "run"}).status, 0);
}

}  // namespace
}  // namespace rapt::test
