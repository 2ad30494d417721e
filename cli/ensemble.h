#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// Runs that answer together with RUN, for `decode` and `evaluate`.
namespace rapt::cli {

void add_ensemble(CLI::App& verb, std::vector<std::string>& runs);

// RUN and those runs.
std::vector<std::filesystem::path> run_paths(const std::string& run, const std::vector<std::string>& ensemble);

}  // namespace rapt::cli
