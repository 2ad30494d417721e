#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rapt::cli {

// Of the terminal behind a file; 80 where it does not say.
std::size_t terminal_columns(int file);

// The first characters of a text, as many as there are columns; never a part of one.
std::string clipped(const std::string& text, std::size_t columns);

// A bar on stderr, only where that is a terminal; elsewhere it writes nothing.
class Progress {
 public:
  Progress(std::string label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` follows the bar: a loss, a name. Redraws at most ten times a second.
  void update(std::int64_t done, const std::string& note = "");

  // Removes the bar, so that other lines may be written. The destructor does it too.
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
