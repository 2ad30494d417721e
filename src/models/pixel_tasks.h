#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a network may predict for every pixel of a picture.
namespace rapt::inline v1::models {

enum class PixelTask : std::uint8_t { segmentation, depth, normals, edges, reshading };

struct PixelTaskInfo {
  PixelTask task;
  std::string_view name;
  std::int64_t channels;  // outputs of a network per pixel; 0: one for each class
  double loss_weight;     // brings the losses of all tasks to a similar scale
};

inline constexpr std::array<PixelTaskInfo, 5> kPixelTasks{{{PixelTask::segmentation, "segmentation", 0, 1},
                                                           {PixelTask::depth, "depth", 1, 3},
                                                           {PixelTask::normals, "normals", 3, 3},
                                                           {PixelTask::edges, "edges", 1, 1},
                                                           {PixelTask::reshading, "reshading", 1, 4}}};

const PixelTaskInfo& info_of(PixelTask task);

// "depth,edges", or "all". Throws rapt::Error for unknown names, for none, and for one given twice.
std::vector<PixelTask> parse_pixel_tasks(std::string_view text);

// Depth is learned as log(depth / kMiddleDepth).
inline constexpr double kMiddleDepth = 8;

}  // namespace rapt::inline v1::models
