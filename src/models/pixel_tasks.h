#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a network may say about every pixel of a picture.
namespace rapt::inline v1::models {

enum class PixelTask : std::uint8_t { segmentation, depth, normals, edges, reshading };

struct PixelTaskInfo {
  PixelTask task;
  std::string_view name;
  std::int64_t channels;  // numbers that a network gives for a pixel; 0: one for each class
  double loss_weight;     // brings the losses of all tasks to about one size
};

inline constexpr std::array<PixelTaskInfo, 5> kPixelTasks{{{PixelTask::segmentation, "segmentation", 0, 1},
                                                           {PixelTask::depth, "depth", 1, 3},
                                                           {PixelTask::normals, "normals", 3, 3},
                                                           {PixelTask::edges, "edges", 1, 1},
                                                           {PixelTask::reshading, "reshading", 1, 4}}};

const PixelTaskInfo& info_of(PixelTask task);

// "depth,edges", or "all". Throws rapt::Error for names that there are not, none at all, or one twice.
std::vector<PixelTask> parse_pixel_tasks(std::string_view text);

// Depth is learned as log(depth / kMiddleDepth).
inline constexpr double kMiddleDepth = 8;

}  // namespace rapt::inline v1::models
