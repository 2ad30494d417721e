#include <algorithm>
#include <cmath>

#include "oracle/oracle.h"

namespace oracle {
namespace {

double loss(const Problem& p, const std::vector<Array>& grad_out, const Array* grad_lse) {
  const Forward f = forward(p);
  double sum = 0;
  for (std::size_t n = 0; n < f.out.size(); ++n)
    for (std::size_t e = 0; e < f.out[n].data.size(); ++e) sum += f.out[n].data[e] * grad_out[n].data[e];
  // Rows that see nothing have no gradient.
  for (std::size_t e = 0; grad_lse && e < f.lse.data.size(); ++e)
    if (f.lse.data[e] > -HUGE_VAL) sum += f.lse.data[e] * grad_lse->data[e];
  return sum;
}

}  // namespace

Gradients finite_differences(const Problem& problem, const std::vector<Array>& grad_out, double step,
                             const Array* grad_lse) {
  Problem p = problem;
  const auto difference = [&](Array& x) {
    Array d(x.shape);
    for (std::size_t n = 0; n < x.data.size(); ++n) {
      const double kept = x.data[n];
      const double h = step * std::max(1.0, std::abs(kept));
      x.data[n] = kept + h;
      const double above = loss(p, grad_out, grad_lse);
      x.data[n] = kept - h;
      d.data[n] = (above - loss(p, grad_out, grad_lse)) / (2 * h);
      x.data[n] = kept;
    }
    return d;
  };
  Gradients g;
  g.q = difference(p.q);
  g.k = difference(p.k);
  for (Array& v : p.v) g.v.push_back(difference(v));
  if (!p.bias.empty()) g.bias = difference(p.bias);
  for (auto& [name, value] : p.parameters) g.parameters[name] = difference(value);
  for (auto& [name, value] : p.normalizer_parameters) g.parameters[name] = difference(value);
  return g;
}

}  // namespace oracle
