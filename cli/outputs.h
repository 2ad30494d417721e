#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

// Outputs are checked before the work, so that hours of it do not end at a wrong name.
namespace rapt::cli {

// Refuses a file that could not be written later. `argument` names the option, as in "decode: --align".
void check_output_file(const std::string& argument, const std::filesystem::path& path);

// The same for a directory, which is created if missing; "-" is standard output, not a directory.
void check_output_directory(const std::string& argument, const std::filesystem::path& path);

// Under mpirun process 0 writes the files: it alone checks, and all processes refuse what it refuses. Collective: every
// process calls it.
void checked_by_process_0(const std::function<void()>& check);

// An option, and whether it writes to standard output.
using StandardOutputs = std::initializer_list<std::pair<std::string, bool>>;

// Refuses more than one, as they would be mixed.
void check_standard_output(const std::string& verb, StandardOutputs outputs);

// Whether the name means standard output.
bool is_standard_output(const std::string& name);

}  // namespace rapt::cli
