#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "tasks/field_text.h"

// The parts that config.json of every kind of run is made of.
namespace rapt::tasks {

inline constexpr int kConfigFormat = 1;

// The config.json of a run's directory. Throws where there is none.
std::filesystem::path run_config_path(const std::filesystem::path& directory);

// A file that holds one JSON object.
nlohmann::json parse_config(const std::filesystem::path& path);

// The same of a run, whose format is checked and taken out.
nlohmann::json parse_run_config(const std::filesystem::path& path);

// One section of the file, which is taken out of the whole; empty where there is none and none is required.
nlohmann::json take_section(const std::string& file, nlohmann::json& whole, const char* name, bool required);

// Throws where something is left of the whole.
void require_nothing_left(const std::string& file, const nlohmann::json& whole, const std::string& takes);

// Throws where an option is left; `owner` is what has no such setting.
void require_no_option_left(const std::map<std::string, std::string>& options, const std::string& owner);

// All settings of one struct: into a section, and from one.
template <class S>
void write_section(nlohmann::ordered_json& part, S settings) {
  FieldWriter writer(part);
  fields(writer, settings);
}

template <class S>
void read_section(const std::string& file, nlohmann::json part, S& settings) {
  FieldReader reader(file, part);
  fields(reader, settings);
  reader.done();
}

}  // namespace rapt::tasks
