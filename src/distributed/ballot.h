#pragma once

#include <string>
#include <vector>

#include "distributed/call.h"

namespace rapt::inline v1::distributed {

// What a process tells the others about its rows and about optional arrays. An array without elements may be missing,
// so a process whose part of it is empty goes by the others.
struct Ballot {
  std::int64_t queries = 0, keys = 0;
  std::uint64_t given = 0;                      // a bit for each such array
  std::uint64_t counts = 0;                     // its part here has elements, or would have
  std::array<std::int64_t, 3> bias{}, dense{};  // sizes beside the rows
  std::int64_t bias_dtype = 0;
  std::int64_t refuses = 0;  // not 0: this process cannot make the call
};

Ballot ballot_of(const Given& given);

// The arrays of a call, agreed on by all processes: one that is empty here is present if it is elsewhere. Throws if
// processes with elements differ.
struct Adopted {
  AttendOptions options;
  Gradients gradients;
  ConstView grad_lse{};
};
Adopted adopt(const char* operation, const Given& given, const std::vector<Ballot>& ballots);

}  // namespace rapt::inline v1::distributed
