#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reproduce/machine.h"
#include "reproduce/parts.h"

namespace rapt::reproduce {

struct PartResult {
  std::string name;
  Section section;    // of a part that failed: its title only
  std::string error;  // why it failed; empty: it did not
  double seconds = 0;
};

struct Report {
  Machine machine;
  bool quick = false;
  std::uint64_t seed = 1;
  int threads = 1;
  double seconds = 0;
  std::vector<PartResult> parts;

  std::vector<const Claim*> claims() const;
  // No part failed, and every claim that must hold does.
  bool holds() const;
  // "41 of 42 claims hold, …" for people.
  std::string summary() const;
};

// Progress callbacks between the parts.
struct Listener {
  std::function<void(std::size_t number, std::size_t count, const Part& part)> on_start;
  std::function<void(const PartResult& result)> on_end;
};

// Runs them in order. A part that throws is reported as failed, and the others run; Interrupted goes through.
Report run_parts(std::span<const Part> parts, const Context& context, const Listener& listener = {});

}  // namespace rapt::reproduce
