#include "explorer/epochs.h"

#include <sstream>

#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/json_text.h"

namespace rapt::explorer {

std::vector<Epoch> read_epochs(const std::filesystem::path& path) {
  std::vector<Epoch> epochs;
  if (!std::filesystem::exists(path)) return epochs;
  std::istringstream lines(read_file(path));
  std::string line;
  for (std::int64_t n = 1; std::getline(lines, line); ++n) {
    if (line.empty()) continue;
    const std::string where = path.string() + ":" + std::to_string(n);
    const nlohmann::json json = parse_json(where, line);
    if (json.is_discarded()) throw Error(where + ": expected a JSON object, got something else");
    if (!json.is_object() || !json.contains("centers")) continue;
    try {
      Epoch epoch;
      epoch.number = json.value("epoch", static_cast<std::int64_t>(epochs.size()) + 1);
      json.at("centers").get_to(epoch.centers);
      if (json.contains("covariances")) json.at("covariances").get_to(epoch.covariances);
      bool fits = epoch.covariances.empty() || epoch.covariances.size() == epoch.centers.size();
      for (std::size_t l = 0; fits && l < epoch.covariances.size(); ++l)
        fits = epoch.covariances[l].size() == epoch.centers[l].size();
      if (!fits) throw Error(where + ": covariances: expected the layers and heads of the centers, got others");
      epochs.push_back(std::move(epoch));
    } catch (const nlohmann::json::exception& error) {
      throw Error(where + ": expected centers [layer][head][2] and covariances [layer][head][2][2], got other shapes");
    }
  }
  return epochs;
}

}  // namespace rapt::explorer
