#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rapt/mechanism.h"
#include "tensor/array.h"

namespace rapt::cli {

// The sizes of a call that those of parameters depend on.
struct CallSizes {
  std::int64_t heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t query_dim = 1;
  std::int64_t key_dim = 1;
};

// An array parameter, in the shape of its file or of its specification.
struct Parameter {
  std::string name;
  Array value;
};

// A mechanism with what --param gave it.
struct ScoreArguments {
  const MechanismInfo* mechanism = nullptr;
  std::vector<Parameter> parameters;
  std::vector<NamedNumber> settings;
  std::array<std::int64_t, 2> grid{};

  // Refers to the arrays of this object.
  Score score() const;
};

// Numbers, or a .npy file of them; `argument` stands in the message where it is neither.
Array read_numbers(const std::string& argument, const std::string& value, ElementType type);

// Reads the --param arguments of a mechanism; `type` is that of the numbers. Throws rapt::Error for unknown names,
// missing ones, and shapes that do not fit.
ScoreArguments read_score(const std::string& operation, const MechanismInfo& mechanism,
                          const std::vector<std::string>& assignments, const CallSizes& sizes, ElementType type);

}  // namespace rapt::cli
