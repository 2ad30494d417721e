#include <deque>

#include "c/listed.h"
#include "c/status.h"
#include "rapt/c.h"
#include "rapt/normalizer.h"

// The list of normalisers and their parameters, for C.

namespace {

using rapt::c::contained;
using rapt::c::Listed;

const std::deque<Listed>& all_listed() {
  static const std::deque<Listed> list = [] {
    std::deque<Listed> all;
    for (const rapt::NormalizerInfo& info : rapt::all_normalizers())
      all.emplace_back(info.name, info.formula, info.parameters);
    return all;
  }();
  return list;
}

// Null past the last one.
const Listed* listed(size_t normalizer) noexcept {
  const Listed* found = nullptr;
  contained([&] { found = normalizer < all_listed().size() ? &all_listed()[normalizer] : nullptr; });
  return found;
}

}  // namespace

extern "C" {

size_t rapt_normalizer_count(void) {
  size_t count = 0;
  contained([&] { count = all_listed().size(); });
  return count;
}

const char* rapt_normalizer_name(size_t normalizer) {
  const Listed* found = listed(normalizer);
  return found != nullptr ? found->name : nullptr;
}

const char* rapt_normalizer_formula(size_t normalizer) {
  const Listed* found = listed(normalizer);
  return found != nullptr ? found->formula : nullptr;
}

size_t rapt_normalizer_parameter_count(size_t normalizer) {
  const Listed* found = listed(normalizer);
  return found != nullptr ? found->parameters.size() : 0;
}

const rapt_parameter_info* rapt_normalizer_parameter(size_t normalizer, size_t parameter) {
  const Listed* found = listed(normalizer);
  return found != nullptr ? rapt::c::element(found->parameters, parameter) : nullptr;
}

}  // extern "C"
