#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/check.h"
#include "benchmarks/timing.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

namespace rapt::cli {

// The rows of one `rapt bench`, measured in turn until all are done or Ctrl-C asks for an end: what is done is printed then
// as usual, and end() says how far it came.
class RowByRow {
 public:
  RowByRow(std::string verb, std::size_t total);

  // False where the command is to end; a row that it was asked in is left out. Where results are wrong the command ends
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
  // Removes the bar, so that other lines may be written.
  void clear() { progress_.clear(); }
  // Ends the command where it was stopped.
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
