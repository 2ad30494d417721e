#include <algorithm>
#include <cmath>

#include "oracle/oracle.h"

namespace oracle {

Forward merge(const std::vector<Forward>& parts) {
  Forward whole;
  for (const Array& out : parts[0].out) whole.out.emplace_back(out.shape);
  whole.lse = Array(parts[0].lse.shape);
  whole.row_max = Array(parts[0].lse.shape);
  whole.row_sum = Array(parts[0].lse.shape);
  for (std::size_t row = 0; row < whole.lse.data.size(); ++row) {
    double largest = -HUGE_VAL, sum = 0;
    for (const Forward& part : parts) largest = std::max(largest, part.row_max.data[row]);
    std::vector<double> sums;
    for (const Forward& part : parts) {
      const double below = part.row_max.data[row] - largest;
      sums.push_back(largest == -HUGE_VAL ? 0 : part.row_sum.data[row] * std::exp(below));
      sum += sums.back();
    }
    whole.row_max.data[row] = largest;
    whole.row_sum.data[row] = sum;
    whole.lse.data[row] = sum > 0 ? largest + std::log(sum) : -HUGE_VAL;
    for (std::size_t set = 0; sum > 0 && set < whole.out.size(); ++set) {
      const std::size_t dim = std::size_t(whole.out[set].shape[3]);
      for (std::size_t part = 0; part < parts.size(); ++part)
        for (std::size_t d = 0; d < dim; ++d)
          whole.out[set].data[row * dim + d] += sums[part] / sum * parts[part].out[set].data[row * dim + d];
    }
  }
  return whole;
}

}  // namespace oracle
