#pragma once

#include <memory>

#include "attend/backend.h"

// One query of many heads that share keys and values, as in decoding with a cache: the heads of a group become the rows
// of one head, so that each key and value is read once for all. No bit of an output depends on it.
namespace rapt::inline v1 {

bool groups_heads(const Problem& problem);
std::unique_ptr<ForwardPass> grouped_forward(const Problem& problem, const Outputs& outputs, bool narrow);
void grouped_backward(const Problem& problem, const BackwardRequest& request, const Saved::Rows& rows);

}  // namespace rapt::inline v1
