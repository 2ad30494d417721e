#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rapt/api.h"
#include "rapt/attend.h"

namespace rapt::inline v1 {

// The arrays of one run, each with the sizes, type, strides and device that the plan was made with; null or empty: the
// array the plan was made with.
struct PlanArrays {
  const void* q = nullptr;
  const void* k = nullptr;
  std::span<const void* const> v{};  // one per value set
  std::span<void* const> out{};      // likewise
  void* lse = nullptr;
  void* row_max = nullptr;
  void* row_sum = nullptr;
  const void* bias = nullptr;
  const std::uint8_t* mask = nullptr;
  // As Mask and AttendOptions have them.
  std::span<const std::int64_t> key_lengths{};
  std::span<const std::int64_t> first_query{};
};

// A call to attend() checked once, for many runs that cost little more than their arithmetic and allocate nothing
// (exceptions: docs/api.md). Parameters, weights and statistics stay in place; parameter values are read at every run.
class Plan {
 public:
  RAPT_API Plan(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options = {});
  // One value set, no other outputs.
  RAPT_API Plan(const ConstView& q, const ConstView& k, const ConstView& v, const View& out,
                const AttendOptions& options = {});
  RAPT_API ~Plan();
  RAPT_API Plan(Plan&&) noexcept;
  RAPT_API Plan& operator=(Plan&&) noexcept;

  // One run at a time. Throws rapt::Error, having computed nothing, for an array the plan does not have, or a length or
  // position that does not fit.
  RAPT_API void run(const PlanArrays& arrays = {});

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

}  // namespace rapt::inline v1
