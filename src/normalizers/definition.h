#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "normalizers/contract.h"
#include "rapt/normalizer.h"

namespace rapt::inline v1 {

// One number type of a normaliser as plain functions, for code that does not compile it into vectors.
struct ScalarNormalizer {
  double (*weight)(double x, const double* p) = nullptr;
  double (*slope)(double x, const double* p) = nullptr;                   // ∂weight/∂x
  double (*parameter_slope)(double x, const double* p, int n) = nullptr;  // ∂weight/∂p[n]
};

// Everything that the library knows of a normaliser, made from its struct.
struct NormalizerDefinition {
  NormalizerInfo info;
  Threshold threshold = Threshold::none;
  double reach = 0;
  ScalarNormalizer scalar;  // where the threshold is none or solved
};

// One per line of registry.txt, in that order. Defined in the build tree.
std::span<const NormalizerDefinition> normalizer_definitions();

inline const NormalizerDefinition& definition_of(Normalizer normalizer) {
  return normalizer_definitions()[static_cast<std::size_t>(normalizer)];
}

namespace detail {

// The weight of x with its derivatives by x and by every p[n].
template <class W>
auto dual_weight(double x, const double* p) {
  constexpr int kSlots = normalizer_slots<W>();
  using N = Dual<double, kSlots + 1>;
  N slots[kSlots + 1];
  for (int n = 0; n < kSlots; ++n) slots[n] = N::variable(p[n], n + 1);
  return W{}.weight(N::variable(x, 0), static_cast<const N*>(slots));
}

}  // namespace detail

template <class W>
NormalizerDefinition make_normalizer_definition(std::string_view name) {
  static_assert(detail::check_normalizer<W>());
  NormalizerDefinition d;
  d.info.name = name;
  d.info.formula = W::formula;
  d.threshold = W::threshold;
  if constexpr (requires { W::parameters; }) d.info.parameters = W::parameters;
  if constexpr (requires { W::reach; }) d.reach = W::reach;
  if constexpr (requires { W::absent(0, std::int64_t{1}); }) d.info.absent = &W::absent;
  if constexpr (W::threshold == Threshold::none || W::threshold == Threshold::solved) {
    d.scalar.weight = [](double x, const double* p) { return W{}.weight(x, p); };
    d.scalar.slope = [](double x, const double* p) { return detail::dual_weight<W>(x, p).d[0]; };
    d.scalar.parameter_slope = [](double x, const double* p, int n) { return detail::dual_weight<W>(x, p).d[n + 1]; };
  }
  return d;
}

}  // namespace rapt::inline v1
