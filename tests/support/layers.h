#pragma once

#include <functional>
#include <vector>

#include "layers/graph.h"
#include "support/tensors.h"

// Checks of layers: their parameters are inputs like any other.
namespace support {

// Every parameter of a layer with random values, in order. They come after the other inputs.
std::vector<Input> parameter_inputs(const rapt::layers::Parameters& parameters, rapt::Random& random,
                                    double spread = 0.5);

// The parameters' values in the one array that a graph reads.
template <class T>
std::vector<T> packed(const rapt::layers::Parameters& parameters, const std::vector<rapt::Tensor<T>>& tensors,
                      std::size_t first);

// Outputs and gradients, of inputs and parameters, of f(graph, inputs); see check_operation.
template <class F>
void check_layer(const rapt::layers::Parameters& parameters, std::vector<Input> inputs, rapt::Random& random,
                 const F& f) {
  const std::size_t first = inputs.size();
  for (Input& p : parameter_inputs(parameters, random)) inputs.push_back(std::move(p));
  check_operation(inputs,
                  [&](auto& tape, const auto& x) {
                    using T = std::decay_t<decltype(*x[0].data)>;
                    const auto count = static_cast<std::size_t>(parameters.size());
                    T* values = tape.template scratch<T>(parameters.size());
                    T* gradients = tape.recording() ? tape.template scratch<T>(parameters.size()) : nullptr;
                    std::fill_n(values, count, T(0));
                    if (gradients) std::fill_n(gradients, count, T(0));
                    const std::vector<T> from = packed<T>(parameters, x, first);
                    std::copy(from.begin(), from.end(), values);
                    // What arrives at the array goes on to the inputs.
                    tape.record([&parameters, x, first, gradients] {
                      for (std::size_t p = 0; p < parameters.list().size(); ++p)
                        for (std::int64_t n = 0; n < parameters.list()[p].count; ++n)
                          x[first + p].grad[n] += gradients[parameters.list()[p].offset + n];
                    });
                    rapt::layers::Graph<T> graph(tape, parameters, values, gradients);
                    return f(graph, x);
                  },
                  {});
}

}  // namespace support
