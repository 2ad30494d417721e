#pragma once

#include <cstddef>
#include <string>

#include "pictures/bars.h"
#include "pictures/curves.h"
#include "pictures/heatmap.h"

// Quick views for a terminal. The caller checks that there is one.
namespace rapt::pictures {

struct TerminalStyle {
  std::size_t columns = 80;
  std::size_t lines = 24;
  bool rich = true;  // Unicode blocks and 24-bit colours; otherwise plain ASCII
};

// Where cells are many, two share a character: its halves have their own colours.
std::string terminal_view(const HeatMap& map, const TerminalStyle& style);
std::string terminal_view(const Curves& curves, const TerminalStyle& style);
std::string terminal_view(const Bars& bars, const TerminalStyle& style);

// The text in exactly this many columns: clipped, or padded at its end, or at its start if `right`.
std::string in_columns(const std::string& text, std::size_t columns, bool rich, bool right = false);

}  // namespace rapt::pictures
