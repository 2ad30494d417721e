#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/score.h"
#include "rapt/mechanism.h"
#include "rapt/normalizer.h"
#include "tensor/array.h"

namespace rapt::cli {

using layers::FormulaTexts;

// The mechanism of --score or of a formula; scaled_dot if neither is given. `verb` begins messages.
Score read_score(const std::string& verb, const std::string& name, const FormulaTexts& texts);

// The sizes of a call that parameter shapes depend on.
struct CallSizes {
  std::int64_t heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t query_dim = 1;
  std::int64_t key_dim = 1;
  std::int64_t value_dim = 1;
};

// An array parameter, in the shape of its file or its specification.
struct Parameter {
  std::string name;
  Array value;
};

// What --param gave to a mechanism and to a normaliser.
struct GivenParameters {
  std::vector<Parameter> of_mechanism;
  std::vector<Parameter> of_normalizer;
  std::vector<NamedNumber> settings;
  std::array<std::int64_t, 2> grid{};
};

// Reads --param arguments into numbers of `type`. A name goes to the mechanism if it has it,
// otherwise to the normaliser. attend() checks names, shapes and numbers.
GivenParameters read_parameters(const MechanismInfo& mechanism, const NormalizerInfo& normalizer,
                                const std::vector<std::string>& assignments, const CallSizes& sizes, ElementType type);

}  // namespace rapt::cli
