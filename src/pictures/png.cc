#include "pictures/png.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "pictures/rendering.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

// Beyond any surface's size.
constexpr double kMaxPixels = 32767;

[[noreturn]] void fail(const std::string& why) { throw Error("png: " + why); }

Surface make_surface(std::int64_t rows, std::int64_t cols) {
  if (rows < 1 || cols < 1 || static_cast<double>(std::max(rows, cols)) > kMaxPixels)
    fail("expected 1 to " + number(kMaxPixels, 0) + " pixels each way, got " + std::to_string(cols) + " × " +
         std::to_string(rows));
  Surface surface(
      libraries().cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(cols), static_cast<int>(rows)));
  if (libraries().cairo_surface_status(surface.get()) != CAIRO_STATUS_SUCCESS) throw std::bad_alloc();
  return surface;
}

std::string encode(const Surface& surface) {
  std::string bytes;
  // An exception must not pass through the library's code.
  const auto append = [](void* target, const unsigned char* data, unsigned length) {
    try {
      static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    } catch (...) {
      return CAIRO_STATUS_NO_MEMORY;
    }
  };
  const cairo_status_t status = libraries().cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status == CAIRO_STATUS_NO_MEMORY) throw std::bad_alloc();
  if (status != CAIRO_STATUS_SUCCESS) fail(libraries().cairo_status_to_string(status));
  return bytes;
}

std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((value >> shift) & 0xff);
  return bytes;
}

// The chunk pHYs, which Cairo does not write: documents take the picture's size from it.
std::string with_resolution(std::string png, double dpi) {
  constexpr std::size_t kAfterHeader = 33;  // signature, and the chunk IHDR
  const auto per_meter = static_cast<std::uint32_t>(std::lround(dpi / 0.0254));
  const std::string chunk = "pHYs" + big_endian(per_meter) + big_endian(per_meter) + '\1';
  png.insert(kAfterHeader, big_endian(9) + chunk + big_endian(crc_of(chunk)));
  return png;
}

}  // namespace

std::string to_png(const Drawing& drawing, Theme theme, double scale, double dpi) {
  const double width = std::ceil(drawing.width * scale), height = std::ceil(drawing.height * scale);
  if (!(scale > 0) || !(width <= kMaxPixels) || !(height <= kMaxPixels))
    fail("expected up to " + number(kMaxPixels, 0) + " pixels each way, got " + number(drawing.width) + " × " +
         number(drawing.height) + " at scale " + number(scale));
  const Surface surface = make_surface(static_cast<std::int64_t>(height), static_cast<std::int64_t>(width));
  render(drawing, theme, false, surface, drawing.width * scale, drawing.height * scale, "png");
  libraries().cairo_surface_flush(surface.get());
  return with_resolution(encode(surface), dpi);
}

std::string encode_png(std::int64_t rows, std::int64_t cols, std::span<const Rgb> colors, std::int64_t down,
                       std::int64_t across) {
  const Surface surface = make_surface(rows * down, cols * across);
  if (static_cast<std::int64_t>(colors.size()) != rows * cols)
    fail("expected " + std::to_string(rows) + " × " + std::to_string(cols) + " colours, got " +
         std::to_string(colors.size()));
  libraries().cairo_surface_flush(surface.get());
  unsigned char* const data = libraries().cairo_image_surface_get_data(surface.get());
  const std::int64_t stride = libraries().cairo_image_surface_get_stride(surface.get());
  for (std::int64_t i = 0; i < rows * down; ++i) {
    auto* const row = reinterpret_cast<std::uint32_t*>(data + i * stride);
    for (std::int64_t j = 0; j < cols * across; ++j) {
      const Rgb c = colors[static_cast<std::size_t>(i / down * cols + j / across)];
      row[j] = std::uint32_t{c.red} << 16 | std::uint32_t{c.green} << 8 | c.blue;
    }
  }
  libraries().cairo_surface_mark_dirty(surface.get());
  return encode(surface);
}

}  // namespace rapt::pictures
