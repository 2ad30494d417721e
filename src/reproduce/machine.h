#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rapt::reproduce {

// Where and with what a report was made, as pairs of a name and a text: for people, in this order.
struct Machine {
  std::vector<std::pair<std::string, std::string>> facts;
};

Machine this_machine();

}  // namespace rapt::reproduce
