#include "backends/cpu/processors.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace rapt::inline v1 {
namespace {

// A hierarchy of groups: the path of this process in it, and where it is mounted.
struct Hierarchy {
  bool second = false;  // of version 2
  std::string path;
  std::string mounted_root;  // what of the hierarchy the mount shows
  std::string mount;
};

bool lists(const std::string& text, std::string_view word) {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');)
    if (part == word) return true;
  return false;
}

// Lines of /proc/self/cgroup are ID:CONTROLLERS:PATH; version 2 has the id 0 and no controllers.
std::vector<Hierarchy> hierarchies_of(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) found.push_back({true, line.substr(second + 1), "", ""});
    else if (lists(controllers, "cpu")) found.push_back({false, line.substr(second + 1), "", ""});
  }
  return found;
}

// Lines of /proc/self/mountinfo: ID PARENT DEVICE ROOT MOUNT OPTIONS … - TYPE SOURCE OPTIONS.
void find_mounts(const std::string& root, std::vector<Hierarchy>& hierarchies) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    std::string skipped, shown, mount, type, source, options;
    head >> skipped >> skipped >> skipped >> shown >> mount;
    tail >> type >> source >> options;
    for (Hierarchy& h : hierarchies)
      if (h.mount.empty() && (h.second ? type == "cgroup2" : type == "cgroup" && lists(options, "cpu")))
        h.mounted_root = shown, h.mount = mount;
  }
}

// The quota of one group. -1 and "max" are none; neither reads as a positive number.
std::optional<double> quota_of(const std::string& folder, bool second) {
  double quota = 0, period = 0;
  if (second) {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return std::nullopt;
  } else {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

// The group's folder below its mount. A path outside of what is mounted ("/..", of another namespace) is the mount itself.
std::string place_below_mount(const Hierarchy& h) {
  if (h.mounted_root == "/") return h.path.starts_with("/..") || h.path == "/" ? "" : h.path;
  if (h.path == h.mounted_root || !h.path.starts_with(h.mounted_root + "/")) return "";
  return h.path.substr(h.mounted_root.size());
}

}  // namespace

std::optional<int> control_group_processors(const std::string& root) {
  std::vector<Hierarchy> hierarchies = hierarchies_of(root);
  find_mounts(root, hierarchies);
  std::optional<double> least;
  for (const Hierarchy& h : hierarchies) {
    if (h.mount.empty()) continue;
    for (std::string below = place_below_mount(h);; below.resize(below.rfind('/'))) {
      if (const std::optional<double> quota = quota_of(root + h.mount + below, h.second))
        least = std::min(*quota, least.value_or(*quota));
      if (below.find('/') == std::string::npos) break;
    }
  }
  if (!least) return std::nullopt;
  // Not std::ceil of a quota near INT_MAX, nor of 2.0000000001 that a division made.
  return static_cast<int>(std::clamp(*least + 1 - 1e-6, 1.0, 1e6));
}

int usable_processors() {
  int processors = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) processors = CPU_COUNT(&set);
#endif
  if (const std::optional<int> limit = control_group_processors()) processors = std::min(processors, *limit);
  return std::max(1, processors);
}

}  // namespace rapt::inline v1
