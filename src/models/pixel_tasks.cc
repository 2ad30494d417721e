#include "models/pixel_tasks.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::inline v1::models {

const PixelTaskInfo& info_of(PixelTask task) { return kPixelTasks[static_cast<std::size_t>(task)]; }

std::vector<PixelTask> parse_pixel_tasks(std::string_view text) {
  std::vector<PixelTask> tasks;
  if (text == "all") {
    for (const PixelTaskInfo& info : kPixelTasks) tasks.push_back(info.task);
    return tasks;
  }
  std::string names;
  for (const PixelTaskInfo& info : kPixelTasks) names += (names.empty() ? "" : ", ") + std::string(info.name);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    begin = end + 1;
    const auto found = std::find_if(kPixelTasks.begin(), kPixelTasks.end(),
                                    [&](const PixelTaskInfo& info) { return info.name == name; });
    if (found == kPixelTasks.end())
      throw Error("tasks: expected all, or some of " + names + ", got '" + std::string(name) + "'");
    if (std::find(tasks.begin(), tasks.end(), found->task) != tasks.end())
      throw Error("tasks: expected each task once, got '" + std::string(name) + "' twice");
    tasks.push_back(found->task);
  }
  return tasks;
}

}  // namespace rapt::inline v1::models
