#include "attend/grid_form.h"

#include <algorithm>
#include <limits>

#include "rapt/tile_program.h"

namespace rapt::inline v1 {
namespace {

// The weights of an axis are stored: more numbers than this per place of the grid would outgrow q, k and v.
constexpr std::int64_t kWeightsPerPlace = 64;

bool has_mask(const Problem& p) {
  const bool window = p.mask.window && (p.mask.window->left >= 0 || p.mask.window->right >= 0);
  return p.mask.causal != Causal::none || window || !p.mask.key_lengths.empty() || !p.mask.query_starts.empty() ||
         p.dense_mask || p.mechanism->definition().scalar.f64.hide != nullptr;
}

}  // namespace

bool may_factorize(const Problem& problem) {
  const std::int64_t rows = problem.grid[0], cols = problem.grid[1];
  if (!problem.mechanism->has_form() || problem.uses_content || !problem.is_softmax() ||
      problem.normalizer_parameters[0].given)
    return false;
  if (problem.first_query.size() != 1 || problem.query_shift(0) != 0 || problem.is_part) return false;
  if (has_mask(problem) || problem.bias || problem.softcap > 0) return false;
  if (problem.queries != problem.keys || rows * cols != problem.keys) return false;
  if (rows * rows + cols * cols > kWeightsPerPlace * problem.keys) return false;
  return std::all_of(problem.parameters.begin(), problem.parameters.end(),
                     [](const ParameterValue& p) { return !p.given || p.spec->role == Role::value; });
}

bool has_separate_axes(const MechanismInfo& mechanism, const void* object) {
  if (!mechanism.has_form()) return false;
  // A result that is no NaN did not read the NaNs it was computed beside.
  double slots[kMaxSlots], coefficients[6], slopes[6][kMaxSlots] = {};
  std::fill_n(slots, kMaxSlots, std::numeric_limits<double>::quiet_NaN());
  mechanism.definition().form(object, slots, coefficients, slopes);
  return coefficients[5] == 0 && std::all_of(slopes[5], slopes[5] + kMaxSlots, [](double d) { return d == 0; });
}

}  // namespace rapt::inline v1
