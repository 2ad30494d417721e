#include "explorer/assets.h"

#include <array>

namespace rapt::explorer {

// The build generates each from the file of that name.
std::span<const unsigned char> text_js();
std::span<const unsigned char> store_js();
std::span<const unsigned char> painter_js();
std::span<const unsigned char> saving_js();
std::span<const unsigned char> overview_js();
std::span<const unsigned char> map_view_js();
std::span<const unsigned char> lines_view_js();
std::span<const unsigned char> steps_view_js();
std::span<const unsigned char> image_view_js();
std::span<const unsigned char> app_js();

std::span<const std::span<const unsigned char>> scripts() {
  static const std::array all{text_js(),     store_js(),      painter_js(),    saving_js(),     overview_js(),
                              map_view_js(), lines_view_js(), steps_view_js(), image_view_js(), app_js()};
  return all;
}

}  // namespace rapt::explorer
