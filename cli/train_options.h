#pragma once

#include <map>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace rapt::cli {

// The settings of a run as options, generated from tasks/fields.h. Values are kept as text.
class SettingOptions {
 public:
  explicit SettingOptions(CLI::App& verb);

  // Names with underscores, as in config.json.
  std::map<std::string, std::string> given() const;

 private:
  struct Texts {
    std::map<std::string, std::string> values;
  };
  std::shared_ptr<Texts> texts_;
  CLI::App* verb_;
};

}  // namespace rapt::cli
