// How many threads work by default: a made-up /proc and control groups under a folder, and the real affinity.

#include "backends/cpu/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "rapt/threads.h"
#include "tests/tensor/temporary_directory.h"

namespace {

class ControlGroups : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<int> processors() const { return rapt::control_group_processors(root_.path().string()); }

  void second_version(const std::string& group, const std::string& mounted_root = "/") {
    put("proc/self/cgroup", "0::" + group + "\n");
    put("proc/self/mountinfo", "22 1 0:20 / /proc rw,nosuid - proc proc rw\n28 22 0:25 " + mounted_root +
                                   " /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate\n");
  }
  void first_version(const std::string& group, const std::string& mounted_root) {
    put("proc/self/cgroup", "9:cpuset:/elsewhere\n4:cpu,cpuacct:" + group + "\n1:name=systemd:/init\n");
    put("proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "31 22 0:27 " +
            mounted_root + " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  }

  rapt::test::TemporaryDirectory root_;
};

TEST_F(ControlGroups, NothingLimitsWhereThereAreNone) {
  EXPECT_EQ(processors(), std::nullopt);
  second_version("/a");
  EXPECT_EQ(processors(), std::nullopt);
  put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(processors(), std::nullopt);
}

TEST_F(ControlGroups, AQuotaIsRoundedUp) {
  second_version("/a");
  const std::pair<const char*, int> cases[]{{"200000 100000", 2}, {"210000 100000", 3}, {"1000 100000", 1},
                                            {"100000 100000", 1}, {"75000 50000", 2},   {"1600000 100000", 16}};
  for (const auto& [text, expected] : cases) {
    put("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(processors(), expected) << text;
  }
}

TEST_F(ControlGroups, TheLeastOfAllAboveCounts) {
  second_version("/a/b/c");
  put("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(processors(), 3);
  put("sys/fs/cgroup/a/b/c/cpu.max", "100000 100000\n");
  EXPECT_EQ(processors(), 1);
  put("sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(processors(), 2);
  put("sys/fs/cgroup/other/cpu.max", "10000 100000\n");
  EXPECT_EQ(processors(), 2);
}

// In a container the mount shows the group itself, with or without a namespace of its own.
TEST_F(ControlGroups, TheMountMayBeTheGroup) {
  put("sys/fs/cgroup/cpu.max", "300000 100000\n");
  for (const auto& [group, mounted] : {std::pair{"/", "/"}, {"/pod/x", "/pod/x"}, {"/../sibling", "/"}, {"/y", "/x"}}) {
    second_version(group, mounted);
    EXPECT_EQ(processors(), 3) << group << " in " << mounted;
  }
  second_version("/pod/x/inner", "/pod/x");
  put("sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(processors(), 1);
}

TEST_F(ControlGroups, VersionOne) {
  first_version("/docker/x", "/docker/x");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(), std::nullopt);
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "350000\n");
  EXPECT_EQ(processors(), 4);
  first_version("/a/b", "/");
  put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(), 2);
}

// Unexpected contents limit nothing and cause no error.
TEST_F(ControlGroups, OddFilesAreNoLimit) {
  second_version("/a");
  for (const char* text : {"", "x y\n", "100000", "100000 0\n", "-5 100000\n"}) {
    put("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(processors(), std::nullopt) << text;
  }
  put("sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(processors(), 1);
  put("proc/self/cgroup", "no colons\n:\n::\n");
  put("proc/self/mountinfo", "short\n - \n");
  EXPECT_EQ(processors(), std::nullopt);
}

TEST(Processors, AffinityCounts) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(rapt::usable_processors(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(rapt::usable_processors(), 1);
  EXPECT_LE(rapt::usable_processors(), CPU_COUNT(&before));
}

}  // namespace
