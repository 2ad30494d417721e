#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "explorer/exhibit.h"

namespace rapt::explorer {

// Larger exhibits do not fit into a page; a server computes their rows on demand.
inline constexpr std::int64_t kMostCells = std::int64_t{1} << 25;

// Called with the number of heads done, and of all.
using Report = std::function<void(std::int64_t, std::int64_t)>;

// One self-contained HTML file with all weights. Throws if there are more than kMostCells.
std::string static_page(const Exhibit& exhibit, const Report& report = {});

// The page of a server, which requests everything else. `live`: with a box for texts.
std::string served_page(bool live);

// Tokens, layers, steps, the picture and the epochs: everything but weights.
nlohmann::ordered_json describe(const Exhibit& exhibit);
nlohmann::ordered_json describe(const HeadSummary& summary);

// JSON for a <script> element: no string in it can end the element.
std::string embeddable(const nlohmann::ordered_json& json);

// The numbers as little-endian f16, which the page reads.
std::string half_bytes(const float* numbers, std::int64_t count);

}  // namespace rapt::explorer
