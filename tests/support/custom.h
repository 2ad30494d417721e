#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.h"

// Checks of custom mechanisms: by their formula, and by finite differences on the library itself.
namespace support {

struct Custom {
  Case described;  // inputs, masks and sizes; its own mechanism is not used
  rapt::Score score;
  std::vector<std::pair<std::string, oracle::Array>> parameters;  // in the library's shapes

  static Custom make(const rapt::Score& score, const CaseSpec& spec,
                     std::vector<std::pair<std::string, oracle::Array>> parameters = {});
};

// out on every path against softmax(score(head, query, key)) · v; −inf hides.
void check_values(const Custom& custom, const std::function<double(Int, Int, Int)>& score);

// Gradients of q, k, v and every parameter.
void check_gradients(const Custom& custom);

}  // namespace support
