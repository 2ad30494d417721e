#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/attend_job.h"
#include "cli/parameters.h"
#include "rapt/attend.h"
#include "tensor/array.h"

namespace rapt::cli {

// Reads the .npy file of an option; refuses other ranks than those given.
Array read_input(const std::string& option, const std::string& path, int lowest_rank, int highest_rank);

// Reads only the rows of this process's share. `rows`, if not null, gets the number of rows of all processes.
// With `may_be_one`, a single row that broadcasts is read whole.
Array read_share(const std::string& option, const std::string& path, int lowest_rank, bool may_be_one,
                 std::int64_t* rows = nullptr);

// The files and options of `rapt attend`, read. Options and views refer to the arrays of this object.
// attend() checks that they fit together.
struct AttendInputs {
  explicit AttendInputs(const AttendArguments& arguments);
  AttendInputs(const AttendInputs&) = delete;
  AttendInputs& operator=(const AttendInputs&) = delete;

  Inputs views() const;
  // Throws what attend() would throw, in terms of the options.
  void check() const;

  // The shape of a file with one number a row: [B, H, Sq] without the dimensions that no input has.
  std::vector<std::int64_t> leading(std::int64_t queries) const;

  Dtype dtype = Dtype::f32;                    // q, k, v and out
  ElementType number_type = ElementType::f32;  // everything else
  int rank = 2;                                // the highest of q, k and v
  std::int64_t batch = 1;
  CallSizes sizes;  // of the whole sequence, of which the arrays may hold a share
  Array q;
  Array k;
  std::vector<Array> v;
  Array bias;
  Array mask;
  GivenParameters parameters;
  Device device;  // where to compute; the arrays lie in ordinary memory
  AttendOptions options;
  std::array<std::int64_t, 2> grid{};  // of the keys, for statistics

 private:
  std::int64_t queries_ = 0, keys_ = 0;  // of all processes
  void read_arrays(const AttendArguments& arguments);
  void find_sizes();
  void read_options(const AttendArguments& arguments);
  void read_positions(const AttendArguments& arguments);
  void read_grid(const AttendArguments& arguments);
};

}  // namespace rapt::cli
