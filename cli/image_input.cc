#include "cli/image_input.h"

#include <png.h>

#include <cmath>

#include "cli/run_report.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

constexpr std::uint64_t kFileLimit = std::uint64_t{1} << 26;

std::string sizes(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + " × " + std::to_string(cols); }

std::vector<double> read_png(const std::string& argument, const std::string& path, std::int64_t rows, std::int64_t cols,
                             std::int64_t channels) {
  const std::string bytes = read_file(path, kFileLimit);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&](const std::string& what) {
    png_image_free(&image);
    throw Error(argument + ": " + path + ": " + what);
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    fail(std::string("expected a PNG file, got something else: ") + image.message);
  if (image.height != static_cast<png_uint_32>(rows) || image.width != static_cast<png_uint_32>(cols))
    fail("expected " + sizes(rows, cols) + " pixels as the model does, got " + sizes(image.height, image.width));
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::vector<png_byte> pixels(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};  // background of transparent pixels
  if (png_image_finish_read(&image, &black, pixels.data(), 0, nullptr) == 0)
    fail(std::string("expected a whole PNG file, got a damaged one: ") + image.message);
  std::vector<double> result;
  for (const png_byte pixel : pixels) result.push_back(pixel / 255.0);
  return result;
}

std::vector<double> read_numbers(const std::string& argument, const std::string& path, std::int64_t rows,
                                 std::int64_t cols, std::int64_t channels) {
  const std::string where = argument + ": " + path;
  Array array = read_npy(path);
  const std::vector<std::int64_t>& shape = array.shape();
  const bool plain = channels == 1 && shape == std::vector<std::int64_t>{rows, cols};
  if (!plain && shape != std::vector<std::int64_t>{rows, cols, channels})
    throw Error(where + ": expected an array " + to_string(std::vector<std::int64_t>{rows, cols, channels}) +
                " as the model does, got " + to_string(shape));
  const double white = array.type() == ElementType::u8 ? 255 : 1;
  const Array numbers = std::move(array).to(ElementType::f64);
  std::vector<double> result;
  for (const double x : numbers.as<double>()) {
    if (!(x >= 0 && x <= white))
      throw Error(where + ": expected numbers from 0 to 1 (0 to 255 for u8), got " + format_number(x));
    result.push_back(x / white);
  }
  return result;
}

}  // namespace

std::vector<double> read_image(const std::string& argument, const std::string& path, std::int64_t rows,
                               std::int64_t cols, std::int64_t channels) {
  if (path.ends_with(".npy")) return read_numbers(argument, path, rows, cols, channels);
  if (!path.ends_with(".png")) throw Error(argument + ": expected a number, a .png or a .npy file, got '" + path + "'");
  if (channels != 1 && channels != 3)
    throw Error(argument + ": expected " + std::to_string(channels) +
                " channels as the model does, got a PNG file, which has 1 or 3");
  return read_png(argument, path, rows, cols, channels);
}

}  // namespace rapt::cli
