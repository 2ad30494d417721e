#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "tasks/field_text.h"
#include "training/run_lock.h"

// The parts of config.json that all kinds of runs have.
namespace rapt::inline v1::tasks {

inline constexpr int kConfigFormat = 1;

// The config.json of a run's directory. Throws if there is none.
std::filesystem::path run_config_path(const std::filesystem::path& directory);

// A file that holds one JSON object.
nlohmann::json parse_config(const std::filesystem::path& path);

// A file of settings for a run on this task: the sections model, training and data. That may be the config.json of a run:
// what belongs to that run alone (sizes, vocabularies, the hash of its data) is left out.
nlohmann::json parse_settings(const std::filesystem::path& path, std::string_view task);

// The task that a file of settings names; empty if it names none.
std::string task_of_settings(const std::filesystem::path& path);

// The same of a run, whose format and checksum are checked and taken out.
nlohmann::json parse_run_config(const std::filesystem::path& path);

// config.json of a run, with a checksum of its contents, white space aside, which parse_run_config() compares. Files
// without a checksum, old or edited on purpose, are accepted.
void write_run_config(const std::filesystem::path& directory, nlohmann::ordered_json whole);

// One section of the file, removed from it; empty if there is none and none is required.
nlohmann::json take_section(const std::string& file, nlohmann::json& whole, const char* name, bool required);

// Throws if anything is left of the file.
void require_nothing_left(const std::string& file, const nlohmann::json& whole, const std::string& takes);

// A resumed run keeps its settings, but for how long it trains. Throws for the first other one that differs.
void require_same_settings(const std::string& run, const nlohmann::ordered_json& has,
                           const nlohmann::ordered_json& asked);

// Creates the directory of a run if necessary and locks it for this process, before anything is written there. Throws
// rapt::Error that names the process that holds it.
std::shared_ptr<training::RunLock> claim_run(const std::filesystem::path& directory);

// Throws if an option is left; `owner` is what has no such setting.
void require_no_option_left(const std::map<std::string, std::string>& options, const std::string& owner);

// All settings of one struct, to a section and from one.
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

// A model of one of several kinds; the kind decides which settings there are.
template <class M>
void read_model_section(const std::string& file, nlohmann::json part, M& model) {
  FieldReader reader(file + ": model", part);
  reader("kind", model.kind, "");
  fields(reader, model);
  reader.done();
}

// What config.json holds for runs with a data source, a model of a kind, and sizes. The hash is that of the files the
// run began with; 0: none.
template <class Config>
nlohmann::ordered_json run_sections(const Config& config, std::uint64_t hash) {
  nlohmann::ordered_json whole;
  whole["format"] = kConfigFormat;
  whole["data"]["task"] = name_of(config.data.source);
  write_section(whole["data"], config.data);
  if (hash != 0) whole["data"]["hash"] = hash;
  whole["model"]["kind"] = name_of(config.model.kind);
  write_section(whole["model"], config.model);
  write_section(whole["training"], config.training);
  write_section(whole["sizes"], config.sizes);
  return whole;
}

// The same from a file; the sections are taken out of the whole.
template <class Config>
void read_run_sections(const std::string& file, nlohmann::json& whole, Config& config, std::uint64_t& hash) {
  nlohmann::json data = take_section(file, whole, "data", true);
  FieldReader reader(file + ": data", data);
  reader("task", config.data.source, "");
  if (const auto found = data.find("hash"); found != data.end() && found->is_number_unsigned()) {
    hash = found->template get<std::uint64_t>();
    data.erase(found);
  }
  fields(reader, config.data);
  reader.done();
  read_model_section(file, take_section(file, whole, "model", true), config.model);
  read_section(file + ": training", take_section(file, whole, "training", true), config.training);
  read_section(file + ": sizes", take_section(file, whole, "sizes", true), config.sizes);
}

}  // namespace rapt::inline v1::tasks
