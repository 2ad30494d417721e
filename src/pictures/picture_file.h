#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "pictures/drawing.h"

namespace rapt::pictures {

enum class PictureFormat : std::uint8_t { svg, png, pdf };

// By the name's ending, .svg, .png or .pdf; none for another.
std::optional<PictureFormat> format_of_name(const std::filesystem::path& path);
// The same; throws rapt::Error for another. Ask before long work starts.
PictureFormat picture_format(const std::filesystem::path& path);

struct PictureOptions {
  Theme theme = Theme::light;
  double scale = 2;  // pixels of a PNG for a 96th of an inch
  double unit = 0;   // 96ths of an inch for a unit of the drawing; 0: one, and an SVG gives its size in pixels
};

// The bytes of the file.
std::string encode_picture(const Drawing& drawing, PictureFormat format, const PictureOptions& options = {});

// Writes the file under a temporary name and renames it.
void write_picture(const Drawing& drawing, const std::filesystem::path& path, const PictureOptions& options = {});

}  // namespace rapt::pictures
