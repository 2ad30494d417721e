#include "backends/host/host_parameters.h"

#include "backends/host/storage.h"

namespace rapt::inline v1 {
namespace {

template <class T>
void read(ParameterValue& value) {
  const ConstView& view = value.view;
  bool contiguous = view.dtype == dtype_of<T>();
  const Shape strides = contiguous_strides(view.shape);
  for (std::size_t n = 0; n < 4; ++n) contiguous = contiguous && (view.shape[n] == 1 || view.strides[n] == strides[n]);
  if (contiguous) {
    value.data = view.data;
    return;
  }
  if (!value.storage) value.storage = std::make_shared<T[]>(static_cast<std::size_t>(element_count(view.shape)));
  T* to = static_cast<T*>(value.storage.get());
  value.data = to;
  for (std::int64_t a = 0; a < view.shape[0]; ++a)
    for (std::int64_t b = 0; b < view.shape[1]; ++b)
      for (std::int64_t c = 0; c < view.shape[2]; ++c)
        for (std::int64_t d = 0; d < view.shape[3]; ++d) {
          const std::int64_t at = a * view.strides[0] + b * view.strides[1] + c * view.strides[2] + d * view.strides[3];
          load_row<T>({const_cast<void*>(view.data), view.dtype, 1}, at, 1, to++);
        }
}

}  // namespace

void read_host_parameters(Problem& problem) {
  for (auto* list : {&problem.parameters, &problem.normalizer_parameters})
    for (ParameterValue& value : *list) {
      if (!value.given) continue;
      if (problem.is_double) read<double>(value);
      else read<float>(value);
    }
}

double normalizer_value(const Problem& problem, std::size_t n, std::int64_t h) {
  const ParameterValue& value = problem.normalizer_parameters[n];
  if (!value.given)
    return problem.normalizer->info.absent ? problem.normalizer->info.absent(static_cast<int>(n), problem.outer.keys)
                                           : 0;
  return problem.is_double ? value.head<double>(h)[0] : static_cast<double>(value.head<float>(h)[0]);
}

}  // namespace rapt::inline v1
