#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rapt/api.h"
#include "rapt/attend.h"

namespace rapt::inline v1 {

// Where the arrays of one run lie. Each has the sizes, type, strides and device that the plan was made with; what is null
// or empty here is as it was then.
struct PlanArrays {
  const void* q = nullptr;
  const void* k = nullptr;
  std::span<const void* const> v{};  // one for each value set
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

// A call to attend() whose shapes and options are checked once, for many runs: each costs little more than its arithmetic
// and allocates nothing (docs/api.md has the exceptions). Parameters, weights asked for and statistics stay where they were when the plan was made; the
// numbers of parameters are read at every run. One run at a time.
class Plan {
 public:
  RAPT_API Plan(const Inputs& inputs, const Outputs& outputs, const AttendOptions& options = {});
  // One value set, no other outputs.
  RAPT_API Plan(const ConstView& q, const ConstView& k, const ConstView& v, const View& out,
                const AttendOptions& options = {});
  RAPT_API ~Plan();
  RAPT_API Plan(Plan&&) noexcept;
  RAPT_API Plan& operator=(Plan&&) noexcept;

  // Throws rapt::Error where something is given that the plan has no place for, or a length or position does not fit;
  // then nothing is computed.
  RAPT_API void run(const PlanArrays& arrays = {});

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

}  // namespace rapt::inline v1
