#include "backends/cpu/processors.h"

#include <algorithm>
#include <charconv>
#include <fstream>
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

// Streams read only whole lines here: numbers and words need facets of a locale, which fail in a process with two
// copies of the C++ library, such as Python with modules that each bring their own.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool lists(std::string_view text, std::string_view word) {
  const std::vector<std::string_view> parts = parts_of(text, ',');
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

// The numbers that begin the file's first line; "max" and what is not there are none.
std::vector<std::int64_t> numbers_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<std::int64_t> numbers;
  for (const std::string_view part : parts_of(line, ' ')) {
    std::int64_t number = 0;
    if (std::from_chars(part.data(), part.data() + part.size(), number).ec != std::errc()) break;
    numbers.push_back(number);
  }
  return numbers;
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
    const std::vector<std::string_view> head = parts_of(std::string_view(line).substr(0, dash), ' '),
                                        tail = parts_of(std::string_view(line).substr(dash + 3), ' ');
    if (head.size() < 5 || tail.empty()) continue;
    for (Hierarchy& h : hierarchies)
      if (h.mount.empty() &&
          (h.second ? tail[0] == "cgroup2" : tail[0] == "cgroup" && tail.size() > 2 && lists(tail[2], "cpu")))
        h.mounted_root = head[3], h.mount = head[4];
  }
}

// The quota of one group. -1 and "max" are none; neither reads as a positive number.
std::optional<double> quota_of(const std::string& folder, bool second) {
  std::vector<std::int64_t> numbers;
  if (second) {
    numbers = numbers_in(folder + "/cpu.max");
  } else {
    numbers = numbers_in(folder + "/cpu.cfs_quota_us");
    for (const std::int64_t period : numbers_in(folder + "/cpu.cfs_period_us")) numbers.push_back(period);
  }
  if (numbers.size() < 2) return std::nullopt;
  const auto quota = static_cast<double>(numbers[0]), period = static_cast<double>(numbers[1]);
  if (quota <= 0 || period <= 0) return std::nullopt;
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
  // Plain std::ceil would overflow for a quota near INT_MAX, and round 2.0000000001, the result of a division, up.
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
