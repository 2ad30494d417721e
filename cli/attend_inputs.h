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

// A .npy file of an option: refuses other ranks than those given.
Array read_input(const std::string& option, const std::string& path, int lowest_rank, int highest_rank);

// The files and options of `rapt attend`, read. Options and views refer to the arrays of this object. Whether they go
// together, attend() tells.
struct AttendInputs {
  explicit AttendInputs(const AttendArguments& arguments);
  AttendInputs(const AttendInputs&) = delete;
  AttendInputs& operator=(const AttendInputs&) = delete;

  Inputs views() const;
  // Throws what attend() would, in the names of the options.
  void check() const;

  // The shape of a file with one number a row: [B, H, Sq] less the dimensions that no input has.
  std::vector<std::int64_t> leading(std::int64_t queries) const;

  Dtype dtype = Dtype::f32;                    // q, k, v and out
  ElementType number_type = ElementType::f32;  // everything else
  int rank = 2;                                // the highest of q, k and v
  std::int64_t batch = 1;
  CallSizes sizes;
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
  void read_arrays(const AttendArguments& arguments);
  void find_sizes();
  void read_options(const AttendArguments& arguments);
  void read_positions(const AttendArguments& arguments);
  void read_grid(const AttendArguments& arguments);
};

}  // namespace rapt::cli
