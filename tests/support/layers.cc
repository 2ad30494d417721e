#include "support/layers.h"

namespace support {

std::vector<Input> parameter_inputs(const rapt::layers::Parameters& parameters, rapt::Random& random, double spread) {
  std::vector<Input> inputs;
  for (const rapt::layers::Parameter& p : parameters.list())
    inputs.push_back(random_input(p.name, p.shape, random, spread));
  return inputs;
}

template <class T>
std::vector<T> packed(const rapt::layers::Parameters& parameters, const std::vector<rapt::Tensor<T>>& tensors,
                      std::size_t first) {
  std::vector<T> values(static_cast<std::size_t>(parameters.size()));
  for (std::size_t p = 0; p < parameters.list().size(); ++p)
    std::copy_n(tensors[first + p].data, parameters.list()[p].count, values.begin() + parameters.list()[p].offset);
  return values;
}

template std::vector<float> packed(const rapt::layers::Parameters&, const std::vector<rapt::Tensor<float>>&,
                                   std::size_t);
template std::vector<double> packed(const rapt::layers::Parameters&, const std::vector<rapt::Tensor<double>>&,
                                    std::size_t);

}  // namespace support
