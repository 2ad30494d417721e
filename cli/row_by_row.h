#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/check.h"
#include "benchmarks/timing.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

namespace rapt::cli {

// Measures the rows of one `rapt bench` until all are done or Ctrl-C asks to stop: finished rows are printed as usual,
// and end() says how far it came.
class RowByRow {
 public:
  RowByRow(std::string verb, std::size_t total);

  // False when the command should end; a row interrupted by the signal is left out. Wrong results end the command
  // with a message, which `where` completes.
  template <class Measure>
  bool measure(const std::string& label, const std::string& where, const Measure& one) {
    if (!next(label)) return false;
    try {
      one();
    } catch (const bench::Stopped&) {
      return false;
    } catch (const bench::WrongResult& wrong) {
      refuse(wrong, where);
    }
    ++done_;
    return true;
  }

  bool stopped() const { return done_ < total_; }
  // Removes the bar, so that other lines can be written.
  void clear() { progress_.clear(); }
  // Ends the command if it was stopped.
  void end() const;

 private:
  bool next(const std::string& label);
  [[noreturn]] void refuse(const bench::WrongResult& wrong, const std::string& where);

  Interrupt interrupt_;
  std::string verb_;
  std::size_t total_;
  std::size_t done_ = 0;
  Progress progress_;
};

}  // namespace rapt::cli
