#include "training/objective.h"

#include <nlohmann/json.hpp>

#include "rapt/error.h"

namespace rapt::inline v1::training {

double Scores::get(std::string_view name) const {
  for (const Score& score : list)
    if (score.name == name) return score.value;
  throw Error("scores: expected the name of a score, got '" + std::string(name) + "'");
}

nlohmann::json Objective::record(const float*) const { return nullptr; }

}  // namespace rapt::inline v1::training
