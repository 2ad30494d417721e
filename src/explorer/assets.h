#pragma once

#include <span>

// The files of page/, which the build embeds in the library.
namespace rapt::explorer {

std::span<const unsigned char> page_html();
std::span<const unsigned char> style_css();
// In the order in which they run.
std::span<const std::span<const unsigned char>> scripts();

}  // namespace rapt::explorer
