#pragma once

#include <vector>

#include "array.h"
#include "rapt/attend.h"

namespace rapt::python {

// The options that every function of the package takes, as Python packs them: one tuple, in this order.
enum class Option : std::uint8_t {
  score,
  params,
  normalizer,
  causal,
  scale,
  softcap,
  bias,
  mask,
  window,
  key_lengths,
  first_query,
  first_key,
  query_starts,
  key_starts,
  grid,
  rotary,
  threads,
  path,
  stream,
  count
};

// AttendOptions with the arrays that they look at.
struct Options {
  Options(const ArrayReader& reader, nb::handle packed);

  AttendOptions value{};
  Array bias;
  std::vector<Array> parameters;   // of the score, then of the normaliser
  std::vector<std::string> names;  // theirs
  std::vector<Array> masks;
};

// A mechanism by its name, or a formula: its three texts, each after a separator (python/rapt/formulas.py).
Score score_of(const std::string& given);
Causal causal_of(const char* operation, const std::string& given);
Path path_of(const char* operation, const std::string& given);
// A parameter of the mechanism or of the normaliser, which are set before.
void add_parameter(AttendOptions& options, const std::string& name, const ConstView& view);

std::int64_t integer(const ArrayReader& reader, nb::handle object, const std::string& name);
std::vector<std::int64_t> read_numbers(const ArrayReader& reader, nb::handle object, const std::string& name);

}  // namespace rapt::python
