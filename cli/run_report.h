#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "training/objective.h"

// How train, evaluate and decode describe a run.
namespace rapt::cli {

// "exact match 99.80 %": a score with its name, and without.
std::string named_score(const training::Score& score);
std::string score_text(const training::Score& score);

std::string scores_line(const training::Scores& scores);
nlohmann::ordered_json scores_json(const training::Scores& scores);

// Four significant digits.
std::string format_number(double x);

}  // namespace rapt::cli
