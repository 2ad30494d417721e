#include "distributed/totals.h"

#include "backends/host/storage.h"
#include "distributed/ways.h"

namespace rapt::inline v1::distributed {

template <class T>
Totals<T>::Totals(const Call& call, const Wanted& wanted) : call_(call), wanted_(wanted) {
  for (std::int64_t n = 0; n < call.slots->count(); ++n) {
    const Slot slot = call.slots->at(n);
    std::vector<std::vector<double>>& list = parameters_.emplace_back();
    for (const Wanted::Parameter& parameter : wanted.parameters)
      list.emplace_back(static_cast<std::size_t>(element_count(slot_shape(parameter, slot))));
    if (!wanted.bias_row) continue;
    Shape shape = slot_of(call.options.bias, slot, call.whole.heads).shape;
    shape[3] = call.keys.length();
    bias_rows_.emplace_back(shape);
  }
}

template <class T>
void Totals<T>::add(const PieceSums<T>& sums) {
  const Span rows = call_.keys.rows(sums.place());
  for (std::int64_t n = sums.slots().begin; n < sums.slots().end; ++n) {
    const auto& from = sums.slot(n);
    const auto slot = static_cast<std::size_t>(n);
    for (std::size_t p = 0; p < from.parameters.size(); ++p) {
      const auto* numbers = static_cast<const double*>(from.parameters[p].data);
      for (std::size_t m = 0; m < parameters_[slot][p].size(); ++m) parameters_[slot][p][m] += numbers[m];
    }
    if (wanted_.bias_row && rows.count() > 0)
      store_view<T>(from.bias_row, part_of(bias_rows_[slot].view(), 3, rows.begin, rows.count()));
  }
}

template <class T>
void Totals<T>::share_all(int from) {
  share_slots([from](std::int64_t) { return from; });
}

template <class T>
void Totals<T>::store(const Gradients& gradients) const {
  for (std::size_t p = 0; p < wanted_.parameters.size(); ++p) {
    const Wanted::Parameter& parameter = wanted_.parameters[p];
    Block<double> whole(parameter.shape);
    const View to = whole.view();
    for (std::size_t n = 0; n < parameters_.size(); ++n) {
      const View part = parameter_of(to, *parameter.spec, call_.slots->at(static_cast<std::int64_t>(n)));
      const double* from = parameters_[n][p].data();
      for_each_row(part.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
        double* const row = row_at<double>(part, b, h, i);
        for (std::int64_t d = 0; d < part.shape[3]; ++d) row[d] += *from++;
      });
    }
    store_array(whole.numbers().data(), gradients.parameters[p].value);
  }
  // Of a single query, a process without a row may want no row of it either.
  if (!wanted_.bias_row || gradients.bias.shape[2] == 0) return;
  if (bias_rows_.empty()) store_zeros(gradients.bias);
  for (std::size_t n = 0; n < bias_rows_.size(); ++n)
    store_view<T>(const_cast<Block<T>&>(bias_rows_[n]).view(),
                  slot_of(gradients.bias, call_.slots->at(static_cast<std::int64_t>(n)), call_.whole.heads));
}

template class Totals<float>;
template class Totals<double>;

}  // namespace rapt::inline v1::distributed
