#pragma once

#include <string>
#include <vector>

namespace rapt::inline v1 {

// A mechanism's hooks as source, for a device whose kernels are compiled at run time.
struct DeviceHooks {
  std::string source;      // of struct rapt::mechanisms::Formula; empty: the formula has none
  bool has_score = false;  // else raw·scale
  bool is_plain = false;   // the score follows from q·k, the positions and numbers of the head, and hides nothing
  bool has_form = false;   // the score is a quadratic form of the grid offset
  std::vector<int> table_reads;  // by the number that slope_of_read() knows a read of the score by: its table
};

}  // namespace rapt::inline v1
