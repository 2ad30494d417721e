#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tasks/run.h"
#include "training/evaluation.h"

// How the verbs train, evaluate and decode speak of a run.
namespace rapt::cli {

// "seq2seq lstm, hidden 64, …; 75,784 parameters"
std::string describe(const tasks::RunConfig& config, std::int64_t parameters);

std::string scores_line(const training::Validation& validation);
nlohmann::ordered_json scores_json(const training::Validation& validation);

// Four significant digits.
std::string format_number(double x);

}  // namespace rapt::cli
