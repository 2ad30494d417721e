#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace rapt::cli {

std::size_t terminal_columns(int file) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string clipped(const std::string& text, std::size_t columns) {
  std::size_t count = 0;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const bool starts = (static_cast<unsigned char>(text[n]) & 0xc0) != 0x80;
    if (starts && ++count > columns) return text.substr(0, n);
  }
  return text;
}

std::string time_left(double seconds) {
  const auto rounded = [](double x) { return static_cast<std::int64_t>(std::llround(std::min(x, 1e15))); };
  if (seconds < 1) return "1 s";
  if (seconds < 99.5) return std::to_string(rounded(seconds)) + " s";
  if (seconds < 99.5 * 60) return std::to_string(rounded(seconds / 60)) + " min";
  if (seconds < 99.5 * 3600) return std::to_string(rounded(seconds / 3600)) + " h";
  return std::to_string(rounded(seconds / 86400)) + " days";
}

Progress::Progress(std::string label, std::int64_t total)
    : label_(std::move(label)),
      total_(std::max<std::int64_t>(total, 1)),
      on_terminal_(::isatty(STDERR_FILENO) != 0),
      started_(Clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::update(std::int64_t done, const std::string& note) {
  if (!on_terminal_) return;
  constexpr auto kPause = std::chrono::milliseconds(100);
  constexpr std::int64_t kWidth = 30;
  const Clock::time_point now = Clock::now();
  if (drawn_ && done < total_ && now - last_ < kPause) return;
  last_ = now;
  drawn_ = true;
  const std::int64_t filled = std::clamp<std::int64_t>(done, 0, total_) * kWidth / total_;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  std::string line = label_ + " [" + std::string(static_cast<std::size_t>(filled), '#') +
                     std::string(static_cast<std::size_t>(kWidth - filled), '.') + "] " + std::to_string(done) + "/" +
                     std::to_string(total_);
  if (done > 0 && done < total_)
    line += ", " + time_left(elapsed * static_cast<double>(total_ - done) / static_cast<double>(done)) + " left";
  if (!note.empty()) line += "  " + note;
  // Carriage return, then erase to the end of the line; a wrapped line would not be erased.
  std::fprintf(stderr, "\r%s\x1b[K", clipped(line, terminal_columns(STDERR_FILENO) - 1).c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace rapt::cli
