#include "cli/run_report.h"
#include "attend/counted.h"

#include <algorithm>
#include <cstdio>

namespace rapt::cli {

std::string format_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", x);
  return text;
}

std::string score_text(const training::Score& score) {
  char text[48];
  switch (score.form) {
    case training::Score::Form::fraction: std::snprintf(text, sizeof text, "%.2f %%", 100 * score.value); break;
    case training::Score::Form::number: std::snprintf(text, sizeof text, "%.4f", score.value); break;
    case training::Score::Form::count: std::snprintf(text, sizeof text, "%.0f", score.value); break;
  }
  return text;
}

std::string named_score(const training::Score& score) {
  std::string name = score.name;
  std::replace(name.begin(), name.end(), '_', ' ');
  if (score.form != training::Score::Form::count) return name + " " + score_text(score);
  if (name.ends_with('s')) name.pop_back();
  return counted(static_cast<std::int64_t>(score.value), name);
}

std::string scores_line(const training::Scores& scores) {
  std::string line;
  for (const training::Score& score : scores.list) line += named_score(score) + ", ";
  char loss[32];
  std::snprintf(loss, sizeof loss, "loss %.4f", scores.loss);
  return line + loss;
}

nlohmann::ordered_json scores_json(const training::Scores& scores) {
  nlohmann::ordered_json json;
  for (const training::Score& score : scores.list)
    if (score.form == training::Score::Form::count) json[score.name] = static_cast<std::int64_t>(score.value);
    else json[score.name] = score.value;
  json["loss"] = scores.loss;
  return json;
}

}  // namespace rapt::cli
