#include "tests/pictures/png_reader.h"

#include <png.h>

#include <stdexcept>

namespace rapt::test {

pictures::Rgb Pixels::at(double x, double y) const {
  const auto column = static_cast<std::int64_t>(x), row = static_cast<std::int64_t>(y);
  if (column < 0 || row < 0 || column >= width || row >= height) throw std::out_of_range("no such pixel");
  return colors[static_cast<std::size_t>(row * width + column)];
}

Pixels read_png(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> data(PNG_IMAGE_SIZE(image));
  if (!png_image_finish_read(&image, nullptr, data.data(), 0, nullptr)) throw std::runtime_error(image.message);
  Pixels pixels{image.width, image.height, {}};
  for (std::size_t n = 0; n < data.size(); n += 3) pixels.colors.push_back({data[n], data[n + 1], data[n + 2]});
  return pixels;
}

std::size_t marks_at_edges(const Pixels& pixels, pictures::Rgb page) {
  std::size_t count = 0;
  for (std::int64_t y = 0; y < pixels.height; ++y)
    for (std::int64_t x = 0; x < pixels.width; ++x) {
      const bool edge = x == 0 || y == 0 || x + 1 == pixels.width || y + 1 == pixels.height;
      if (edge && pixels.colors[static_cast<std::size_t>(y * pixels.width + x)] != page) ++count;
    }
  return count;
}

}  // namespace rapt::test
