// Formulas as source for a device: NVRTC compiles the kernels of every formula of the documentation, without a device.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/cuda/runtime/compile.h"
#include "backends/cuda/runtime/kept_kernels.h"
#include "mechanisms/device_hooks.h"
#include "mechanisms/objects.h"
#include "rapt/error.h"
#include "rapt/formula.h"

namespace {

struct Texts {
  std::string score;
  rapt::FormulaOptions options;
};

// The text between backticks in a cell of a table.
std::string code_of(const std::string& cell) {
  const std::size_t first = cell.find('`'), last = cell.rfind('`');
  return first == std::string::npos ? "" : cell.substr(first + 1, last - first - 1);
}

std::vector<Texts> documented() {
  std::ifstream page(std::string(RAPT_SOURCE_DIR) + "/docs/formulas.md");
  std::vector<Texts> all;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line.starts_with("## Published");
    if (!inside || !line.starts_with("| ") || line.starts_with("| |") || line.starts_with("| ---")) continue;
    const std::size_t second = line.find(" | "), third = line.find(" | ", second + 3);
    all.push_back({code_of(line.substr(second, third - second)), {.pair = "", .visible = code_of(line.substr(third))}});
  }
  return all;
}

const rapt::DeviceHooks& hooks_of(const rapt::Score& score, bool offsets_seen) {
  return score.mechanism->definition().entry->device_hooks(score.object.get(), offsets_seen);
}

void expect_compiles(const rapt::DeviceHooks& hooks, const std::string& kernel, const char* architecture) {
  try {
    EXPECT_GT(rapt::cuda::compile_kernel(hooks.source, kernel, architecture).image.size(), 1000u);
  } catch (const rapt::Error& error) {
    FAIL() << error.what() << "\n" << hooks.source;
  }
}

class FormulaKernels : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = rapt::cuda::compiler_refusal();
    if (!why.empty()) GTEST_SKIP() << why;
    folder_ = std::filesystem::temp_directory_path() / ("rapt_kernels_" + std::to_string(getpid()));
    setenv("RAPT_KERNEL_CACHE", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("RAPT_KERNEL_CACHE");
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(FormulaKernels, OfTheDocumentationCompile) {
  const std::vector<Texts> all = documented();
  EXPECT_GE(all.size(), 10u);
  for (const Texts& texts : all) {
    SCOPED_TRACE(texts.score + "; " + texts.options.visible);
    const rapt::Score score = rapt::formula(texts.score, texts.options);
    // Pair by pair, and with what masks have taken over.
    expect_compiles(hooks_of(score, false), "weights_kernel<@>", "compute_90a");
    const rapt::DeviceHooks& seen = hooks_of(score, true);
    expect_compiles(seen,
                    seen.is_plain ? "hopper::forward<rapt::cuda::hopper::ScoreRule<@, false>, rapt::cuda::Bf16, 64, "
                                    "rapt::cuda::hopper::Plan<3, 128>>"
                                  : "gradient_kernel<rapt::cuda::KeyGradients, @>",
                    "compute_90a");
  }
}

TEST_F(FormulaKernels, OfEveryOperationCompile) {
  const rapt::Score score = rapt::formula(
      "raw*scale*a + b[head]*sigmoid(raw) + where(row < 0 or not col == 2, min(raw, m), max(-raw, 2)) + "
      "sign(i)*floor(j/7)*exp(-abs(col))*log(1 + i)^1.5 + sqrt(keys) - tanh(raw)/queries + erf(raw) + t[i-j] + "
      "u[batch, clip(raw, 0, 2)] + where(t[i-j] > 0, sin(raw), cos(raw)) + m^raw + inf*0",
      {.pair = "w*tanh(q+k) + abs(q-k)", .visible = "u[batch, j] > a and (i - j)^2 < 9 or t[i-j] == 1"});
  const rapt::DeviceHooks& hooks = hooks_of(score, false);
  ASSERT_FALSE(hooks.source.empty());
  EXPECT_FALSE(hooks.is_plain);
  for (const char* kernel :
       {"forward_kernel<@>", "weights_kernel<@>", "statistics_kernel<@>",
        "gradient_kernel<rapt::cuda::QueryGradients, @>", "gradient_kernel<rapt::cuda::KeyGradients, @>",
        "backward_bias_kernel<@>", "backward_table_kernel<@>", "backward_free_table_kernel<@>"})
    expect_compiles(hooks, kernel, "compute_90a");
}

// Slopes by what a table gave, among numbers that have none.
TEST_F(FormulaKernels, OfGradientsOfTablesCompile) {
  const rapt::Score score = rapt::formula(
      "raw*scale*(1 + g[j]) + g[i]*sin(min(g[j], a)) + where(u[batch, j] > 0, h[0, clip(i*3, 0, 60)], raw*h[batch, j]) "
      "+ "
      "max(2, sqrt(abs(g[i]))) + a^g[i + 1] + clip(u[0, g[j]], -1, 1)/j",
      {.pair = "", .visible = "u[batch, j] > 0.1 and v[j] < 2"});
  const rapt::DeviceHooks& hooks = hooks_of(score, false);
  // In the order of the score; what only `visible` reads has no slope, and is read by the score where it is not settled.
  EXPECT_GE(hooks.table_reads.size(), 7u);
  expect_compiles(hooks, "backward_free_table_kernel<@>", "compute_90a");
  EXPECT_TRUE(hooks_of(rapt::formula("raw*scale + t[i-j]"), false).table_reads.empty());
}

// Scores that factorise over a grid: what the passes need of them.
TEST_F(FormulaKernels, OfFormsOfTheGridCompile) {
  const rapt::Score score = rapt::formula("-exp(alpha)*((row - 2*center[0])*row + (col - 2*center[1])*col)/2");
  const rapt::DeviceHooks& hooks = hooks_of(score, false);
  ASSERT_TRUE(hooks.has_form);
  for (const char* kernel : {"factorized::form_kernel<@, float>", "factorized::forward_again_kernel<@>",
                             "gradient_kernel<rapt::cuda::QueryGradients, @>"})
    expect_compiles(hooks, kernel, "compute_90a");
  EXPECT_FALSE(hooks_of(rapt::formula("raw - row^2"), false).has_form);
}

// Both passes on the tensor cores.
TEST_F(FormulaKernels, ForTheTensorCoresCompile) {
  const rapt::Score score = rapt::formula("raw*scale - m*sqrt(abs(i-j))");
  const rapt::DeviceHooks& hooks = hooks_of(score, true);
  ASSERT_TRUE(hooks.is_plain);
  const std::string kinds = "rapt::cuda::hopper::ScoreRule<@, false>, rapt::cuda::Bf16, 64, ",
                    keys = "rapt::cuda::hopper::GradientPlan<2, 96>",
                    queries = "rapt::cuda::hopper::GradientPlan<3, 64>";
  expect_compiles(hooks, "hopper::forward<" + kinds + "rapt::cuda::hopper::Plan<3, 128>>", "sm_90a");
  expect_compiles(hooks,
                  "hopper::gradients<rapt::cuda::hopper::KeySide<" + kinds + keys + ", true, true>, " + keys + ">",
                  "compute_90a");
  expect_compiles(hooks, "hopper::gradients<rapt::cuda::hopper::QuerySide<" + kinds + queries + ">, " + queries + ">",
                  "compute_90a");
}

// Beside a bias, a dense mask, sigmoid or argmax.
TEST_F(FormulaKernels, OfDenseRulesCompile) {
  const rapt::Score score = rapt::formula("raw*scale - m*sqrt(abs(i-j))");
  const rapt::DeviceHooks& hooks = hooks_of(score, true);
  const std::string rule = "rapt::cuda::hopper::ScoreRule<@, false, true>, rapt::cuda::F16, 64",
                    plan = "rapt::cuda::hopper::GradientPlan<2, 96>";
  expect_compiles(hooks, "hopper::forward<" + rule + ", rapt::cuda::hopper::Plan<2, 128>>", "sm_90a");
  expect_compiles(hooks, "hopper::largest<" + rule + ">", "compute_90a");
  for (const std::string side : {"QuerySide", "BiasSide"})
    expect_compiles(hooks,
                    "hopper::gradients<rapt::cuda::hopper::" + side + "<" + rule + ", " + plan + ">, " + plan + ">",
                    "compute_90a");
}

TEST_F(FormulaKernels, SayWhichRunOnTheTensorCores) {
  const auto is_plain = [](const char* text, const rapt::FormulaOptions& options, bool seen) {
    const rapt::Score score = rapt::formula(text, options);
    return hooks_of(score, seen).is_plain;
  };
  EXPECT_TRUE(is_plain("raw*scale - m*abs(i-j)", {.pair = "", .visible = "j <= i"}, true));
  EXPECT_FALSE(is_plain("raw*scale - m*abs(i-j)", {.pair = "", .visible = "j <= i"}, false));
  EXPECT_FALSE(is_plain("raw*scale + t[i-j]", {}, true));
  EXPECT_FALSE(is_plain("raw", {.pair = "q-k", .visible = ""}, true));
  const rapt::Score plain = rapt::formula("", {.pair = "", .visible = "j <= i"});
  EXPECT_FALSE(hooks_of(plain, true).has_score);
  EXPECT_TRUE(hooks_of(plain, true).is_plain);
}

// Formulas that differ only in names share a kernel; a cached kernel is not compiled again, unless its file is
// incomplete.
TEST_F(FormulaKernels, AreKept) {
  const std::string one = hooks_of(rapt::formula("raw*scale + a*j"), true).source;
  const std::string other = hooks_of(rapt::formula("raw * scale + other * j"), true).source;
  EXPECT_EQ(one, other);
  const std::string kernel = "weights_kernel<@>";
  const rapt::cuda::CompiledKernel first = rapt::cuda::compile_kernel(one, kernel, "compute_90a");
  EXPECT_FALSE(first.kept);
  const rapt::cuda::CompiledKernel second = rapt::cuda::compile_kernel(one, kernel, "compute_90a");
  EXPECT_TRUE(second.kept);
  EXPECT_EQ(first.image, second.image);
  EXPECT_EQ(first.name, second.name);
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) file = entry.path();
  ASSERT_EQ(file.extension(), ".kernel");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_FALSE(rapt::cuda::compile_kernel(one, kernel, "compute_90a").kept);
  EXPECT_TRUE(rapt::cuda::compile_kernel(one, kernel, "compute_90a").kept);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-100, std::ios::end);
  bytes.put('\x7f');
  bytes.close();
  EXPECT_FALSE(rapt::cuda::compile_kernel(one, kernel, "compute_90a").kept);
}

}  // namespace
