#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reproduce/report.h"

namespace rapt::reproduce {

// The key that tells results.json of a report from other files of that name.
inline constexpr const char* kReportKey = "rapt_report";

// All but the pictures, for programs.
nlohmann::ordered_json to_json(const Report& report);

// The claims as rows of cells, the headings first: document, claim, its figure, our figure, holds.
std::vector<std::vector<std::string>> claim_rows(const Report& report);

}  // namespace rapt::reproduce
