#include <algorithm>
#include <vector>

#include "backends/cpu/targets.h"
#include "formulas/programs.h"

// The interpreter of formulas for this processor.
namespace rapt::inline v1 {

#define RAPT_DECLARE(name)                              \
  namespace name {                                      \
  const formulas::Interpreters& formula_interpreters(); \
  }
RAPT_FOR_EACH_TARGET(RAPT_DECLARE)
#undef RAPT_DECLARE

namespace formulas {

const Interpreters* interpreters_for(Isa isa) {
  const std::vector<Isa> available = available_isas();
  if (std::find(available.begin(), available.end(), isa) == available.end()) return nullptr;
  switch (isa) {
#define RAPT_CASE(name) \
  case Isa::name: return &name::formula_interpreters();
    RAPT_FOR_EACH_TARGET(RAPT_CASE)
#undef RAPT_CASE
    default: return nullptr;
  }
}

}  // namespace formulas
}  // namespace rapt::inline v1
