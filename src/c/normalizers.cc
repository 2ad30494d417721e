#include <string>
#include <vector>

#include "c/status.h"
#include "rapt/c.h"
#include "rapt/normalizer.h"

// What normalisers there are, for C.

namespace {

using rapt::c::contained;

// Names with an end that C can see.
struct Listed {
  std::string name, formula;
};

const std::vector<Listed>& listed() {
  static const std::vector<Listed> list = [] {
    std::vector<Listed> all;
    for (const rapt::NormalizerInfo& info : rapt::all_normalizers())
      all.push_back({std::string(info.name), std::string(info.formula)});
    return all;
  }();
  return list;
}

}  // namespace

extern "C" {

size_t rapt_normalizer_count(void) {
  size_t count = 0;
  contained([&] { count = listed().size(); });
  return count;
}

const char* rapt_normalizer_name(size_t index) {
  const char* name = nullptr;
  contained([&] { name = index < listed().size() ? listed()[index].name.c_str() : nullptr; });
  return name;
}

const char* rapt_normalizer_formula(size_t index) {
  const char* formula = nullptr;
  contained([&] { formula = index < listed().size() ? listed()[index].formula.c_str() : nullptr; });
  return formula;
}

}  // extern "C"
