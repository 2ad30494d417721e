#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "rapt/view.h"

namespace rapt::python {

// An array of a call that XLA makes, contiguous, and what it is for: "q", "k", "v", "bias", "mask", "key_lengths", "first_query",
// "param:NAME", and of the passes "out", "lse", "rows", "grad_out", "grad_lse"; a gradient has the role of what it belongs to.
struct XlaArray {
  std::string role;
  std::int32_t type = 0;  // xla::DataType
  void* data = nullptr;
  std::vector<std::int64_t> dims;
  int rank = 0;  // of the call itself; dimensions before it are of vmap, which calls once for each index
};

using Attribute = std::variant<std::string, double, std::vector<std::int64_t>>;

// What jax.py asks XLA for, and XLA asks the handlers. Attributes have the names of options; what is left out is not given.
struct XlaCall {
  std::vector<XlaArray> arguments, results;
  std::map<std::string, Attribute> attributes;
  Device device{};
  void* stream = nullptr;

  // "q,k,v,param:m" with a number of dimensions for each, from the attributes.
  void set_roles();
  // Throws what the engine says of such arrays and options; reads and writes nothing.
  void check(bool is_backward) const;
  void run(bool is_backward) const;
};

}  // namespace rapt::python
