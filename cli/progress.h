#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rapt::cli {

// The width of the terminal behind a file; 80 if unknown.
std::size_t terminal_columns(int file);

// As many characters of a text as fit into the columns; never half of one.
std::string clipped(const std::string& text, std::size_t columns);

// About how long: "42 s", "12 min", "5 h", "9 days".
std::string time_left(double seconds);

// A progress bar on stderr if that is a terminal; otherwise it writes nothing.
class Progress {
 public:
  Progress(std::string label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` follows the bar, for example a loss or a name. Redraws at most ten times a second.
  void update(std::int64_t done, const std::string& note = "");

  // Removes the bar, so that other lines can be written. The destructor does so too.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_;
  bool on_terminal_;
  bool drawn_ = false;
  Clock::time_point started_;
  Clock::time_point last_;
};

}  // namespace rapt::cli
