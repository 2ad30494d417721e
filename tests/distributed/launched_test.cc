// What launchers say of the processes that they start.

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/mpi/session.h"

namespace {

// Sets variables, and later gives back what was there.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "PMIX_RANK", "PMIX_NAMESPACE",
                             "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}) {
      const char* text = std::getenv(name);
      before_.emplace_back(name, text ? std::optional<std::string>(text) : std::nullopt);
      ::unsetenv(name);
    }
    for (const auto& [name, text] : variables) ::setenv(name.c_str(), text.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, text] : before_)
      if (text) ::setenv(name.c_str(), text->c_str(), 1);
      else ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

int launched_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  const Environment environment(variables);
  return rapt::mpi::launched();
}

TEST(Launched, ByEveryLauncher) {
  EXPECT_EQ(launched_with({}), 0);
  EXPECT_EQ(launched_with({{"OMPI_COMM_WORLD_SIZE", "3"}, {"PMIX_RANK", "0"}}), 3);
  EXPECT_EQ(launched_with({{"PMI_SIZE", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}}), 4);
  EXPECT_EQ(launched_with({{"MPI_LOCALNRANKS", "2"}}), 2);
  EXPECT_EQ(launched_with({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}}), 0);
  EXPECT_EQ(launched_with({{"PMIX_NAMESPACE", "slurm.pmix.7.0"}, {"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
            2);
  EXPECT_EQ(launched_with({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}), 1);
  EXPECT_EQ(launched_with({{"PMIX_RANK", "0"}}), rapt::mpi::kSome);
}

}  // namespace
