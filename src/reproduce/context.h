#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace rapt::reproduce {

// Thrown when the user asked to stop; it ends all parts, not one.
struct Interrupted {};

// Given to every part.
struct Context {
  bool quick = false;
  std::uint64_t seed = 1;
  int threads = 1;
  std::filesystem::path runs;  // where models may be trained; they stay with the report
  std::function<void(std::int64_t done, std::int64_t total, const std::string& note)> on_progress;
  // Whether the user asked to stop.
  std::function<bool()> stop;

  // Reports the part's progress.
  void show(std::int64_t done, std::int64_t total, const std::string& note = "") const {
    if (on_progress) on_progress(done, total, note);
  }
  void end_if_asked() const {
    if (stop && stop()) throw Interrupted{};
  }
  // Reports and stops if asked, where there is nothing to save.
  void progress(std::int64_t done, std::int64_t total, const std::string& note = "") const {
    show(done, total, note);
    end_if_asked();
  }
};

}  // namespace rapt::reproduce
