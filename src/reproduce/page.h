#pragma once

#include <string>

#include "reproduce/report.h"

namespace rapt::reproduce {

// The report as one page that needs nothing else: no network, no server, pictures inline.
std::string to_page(const Report& report);

}  // namespace rapt::reproduce
