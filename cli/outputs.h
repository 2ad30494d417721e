#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

// Outputs are checked before the work: hours of it should not end at a name that was wrong from the start.
namespace rapt::cli {

// Refuses a file that could not be written in the end. `argument` names the option, as in "decode: --align".
void check_output_file(const std::string& argument, const std::filesystem::path& path);

// The same for a directory, which is made where it is missing; "-" is standard output and no directory.
void check_output_directory(const std::string& argument, const std::filesystem::path& path);

// Under mpirun files are process 0's: it alone makes the check, and all processes refuse what it refused. Every process
// calls it.
void checked_by_process_0(const std::function<void()>& check);

// What a command writes to standard output: an option and whether it does so.
using StandardOutputs = std::initializer_list<std::pair<std::string, bool>>;

// Refuses more than one: they would be mixed.
void check_standard_output(const std::string& verb, StandardOutputs outputs);

// Whether the name is that of standard output.
bool is_standard_output(const std::string& name);

}  // namespace rapt::cli
