#pragma once

#include <string>
#include <string_view>

namespace rapt::pictures {

// Bytes as text, for data embedded in pages and drawings.
std::string base64(std::string_view bytes);

}  // namespace rapt::pictures
