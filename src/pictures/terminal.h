#pragma once

#include <cstddef>
#include <string>

#include "pictures/bars.h"
#include "pictures/curves.h"
#include "pictures/heatmap.h"

// Quick views for a terminal. Whether there is one is for the caller to ask.
namespace rapt::pictures {

struct TerminalStyle {
  std::size_t columns = 80;
  std::size_t lines = 24;
  bool rich = true;  // Unicode blocks and 24-bit colours; otherwise plain ASCII
};

// Two cells to a character where cells are many: the upper and the lower half have their own colours.
std::string terminal_view(const HeatMap& map, const TerminalStyle& style);
std::string terminal_view(const Curves& curves, const TerminalStyle& style);
std::string terminal_view(const Bars& bars, const TerminalStyle& style);

// The text in exactly so many columns: clipped, or filled with spaces at its end, or at its start where `right`.
std::string in_columns(const std::string& text, std::size_t columns, bool rich, bool right = false);

}  // namespace rapt::pictures
