#include "tasks/config_file.h"

#include <span>

#include "rapt/error.h"
#include "tensor/checksum.h"
#include "tensor/files.h"
#include "tensor/json_text.h"

namespace rapt::inline v1::tasks {

using nlohmann::json;

namespace {

constexpr const char* kChecksum = "checksum";

// By names in order, whatever the order in the file.
std::string checksum_of(const json& whole) {
  const std::string text = whole.dump();
  return checksum_text(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

std::filesystem::path run_config_path(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory))
    throw Error("expected the directory of a run, got '" + directory.string() + "', which " +
                (std::filesystem::exists(directory) ? "is not a directory" : "does not exist"));
  std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path))
    throw Error(directory.string() + ": expected the directory of a run, got one without config.json");
  return path;
}

json parse_config(const std::filesystem::path& path) {
  json whole = parse_json(path.string(), read_file(path));
  if (!whole.is_object()) throw Error(path.string() + ": expected a JSON object, got something else");
  return whole;
}

std::string task_of_settings(const std::filesystem::path& path) {
  const json whole = parse_config(path);
  const auto data = whole.find("data");
  if (data == whole.end() || !data->is_object()) return "";
  const json task = data->value("task", json(""));
  return task.is_string() ? task.get<std::string>() : "";
}

json parse_settings(const std::filesystem::path& path, std::string_view task) {
  json whole = parse_config(path);
  if (const std::string own = task_of_settings(path); !own.empty() && own != task)
    throw Error(path.string() + ": data: task: expected '" + std::string(task) + "', got '" + own + "'");
  for (const char* name :
       {"format", kChecksum, "sizes", "source_vocabulary", "target_vocabulary", "subwords", "skipped_lines"})
    whole.erase(name);
  if (const auto data = whole.find("data"); data != whole.end() && data->is_object())
    for (const char* name : {"task", "hash"}) data->erase(name);
  return whole;
}

void require_same_settings(const std::string& run, const nlohmann::ordered_json& has,
                           const nlohmann::ordered_json& asked) {
  for (const char* section : {"data", "model", "training"})
    for (const auto& [name, value] : asked.at(section).items()) {
      const auto old = has.at(section).find(name);
      if (name == "epochs" || name == "patience" || (old != has.at(section).end() && *old == value)) continue;
      const auto text = [](const nlohmann::ordered_json& one) {
        if (!one.is_string()) return one.dump();
        const auto word = one.get<std::string>();
        return word.empty() ? std::string("none") : "'" + word + "'";
      };
      const std::string before = old == has.at(section).end() ? "none" : text(*old);
      throw Error("setting " + (name == "kind" ? "model" : name) + ": expected " + before +
                  (before == "none" ? "," : "") + " as in " + run + ", got " + text(value) +
                  "; a resumed run keeps its settings, except --epochs and --patience");
    }
}

std::shared_ptr<training::RunLock> claim_run(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error("cannot create " + directory.string() + ": " + error.message());
  return training::RunLock::acquire(directory);
}

void write_run_config(const std::filesystem::path& directory, nlohmann::ordered_json whole) {
  whole[kChecksum] = checksum_of(json::parse(whole.dump()));
  write_file(directory / "config.json", whole.dump(2) + "\n");
}

json parse_run_config(const std::filesystem::path& path) {
  json whole = parse_config(path);
  if (const auto found = whole.find(kChecksum); found != whole.end()) {
    const json expected = *found;
    whole.erase(found);
    if (const std::string got = checksum_of(whole); expected != got)
      throw Error(path.string() + " is damaged or was edited: expected the checksum " + expected.dump() + ", got \"" +
                  got + "\"; where it was edited on purpose, take the checksum out");
  }
  if (whole.value("format", json(0)) != kConfigFormat) throw Error(path.string() + ": expected format 1, got another");
  whole.erase("format");
  return whole;
}

json take_section(const std::string& file, json& whole, const char* name, bool required) {
  const auto found = whole.find(name);
  if (found == whole.end()) {
    if (required) throw Error(file + ": expected a section '" + name + "', got none");
    return json::object();
  }
  if (!found->is_object()) throw Error(file + ": " + name + ": expected an object, got " + found->dump());
  json result = *found;
  whole.erase(found);
  return result;
}

void require_nothing_left(const std::string& file, const json& whole, const std::string& takes) {
  if (!whole.empty()) throw Error(file + ": expected " + takes + ", got '" + whole.begin().key() + "'");
}

void require_no_option_left(const std::map<std::string, std::string>& options, const std::string& owner) {
  if (options.empty()) return;
  const std::string& name = options.begin()->first;
  throw Error("setting " + name + ": expected an option for " + owner + ", got another");
}

}  // namespace rapt::inline v1::tasks
