#include "cli/row_by_row.h"

#include <iostream>

#include "attend/counted.h"
#include "cli/options.h"
#include "cli/verbs.h"

namespace rapt::cli {

RowByRow::RowByRow(std::string verb, std::size_t total)
    : verb_(std::move(verb)), total_(total), progress_(verb_, static_cast<std::int64_t>(total)) {}

bool RowByRow::next(const std::string& label) {
  if (Interrupt::asked()) return false;
  progress_.update(static_cast<std::int64_t>(done_), label);
  return true;
}

void RowByRow::refuse(const bench::WrongResult& wrong, const std::string& where) {
  progress_.clear();
  std::cerr << "rapt: bench: wrong results: " << one_line(wrong.message) << (where.empty() ? "" : " (" + where + ")")
            << "\n";
  throw ExitStatus{1};
}

void RowByRow::end() const {
  if (!stopped()) return;
  std::cout.flush();
  std::cerr << "rapt: " << verb_ << ": stopped after " << done_ << " of " << counted(total_, "row") << std::endl;
  throw ExitStatus{kInterrupted};
}

}  // namespace rapt::cli
