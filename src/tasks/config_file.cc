#include "tasks/config_file.h"

#include "rapt/error.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {

using nlohmann::json;

std::filesystem::path run_config_path(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory))
    throw Error("expected the directory of a run, got '" + directory.string() + "', which is not there");
  std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path))
    throw Error(directory.string() + ": expected the directory of a run, got one without config.json");
  return path;
}

json parse_config(const std::filesystem::path& path) {
  json whole = json::parse(read_file(path), nullptr, false);
  if (!whole.is_object()) throw Error(path.string() + ": got something else than a JSON object");
  return whole;
}

json parse_run_config(const std::filesystem::path& path) {
  json whole = parse_config(path);
  if (whole.value("format", json(0)) != kConfigFormat) throw Error(path.string() + ": got a format other than 1");
  whole.erase("format");
  return whole;
}

json take_section(const std::string& file, json& whole, const char* name, bool required) {
  const auto found = whole.find(name);
  if (found == whole.end()) {
    if (required) throw Error(file + ": got no section '" + name + "'");
    return json::object();
  }
  if (!found->is_object()) throw Error(file + ": " + name + ": got " + found->dump() + ", takes an object");
  json result = *found;
  whole.erase(found);
  return result;
}

void require_nothing_left(const std::string& file, const json& whole, const std::string& takes) {
  if (!whole.empty()) throw Error(file + ": got '" + whole.begin().key() + "', " + takes);
}

void require_no_option_left(const std::map<std::string, std::string>& options, const std::string& owner) {
  if (options.empty()) return;
  throw Error("setting " + options.begin()->first + ": " + owner + " has no such setting");
}

}  // namespace rapt::inline v1::tasks
