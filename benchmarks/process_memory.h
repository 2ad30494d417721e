#pragma once

#include <cstdint>
#include <functional>
#include <optional>

// The memory of this process, as the operating system reports it; none if it does not.
namespace rapt::bench {

std::optional<std::int64_t> memory_now();
std::optional<std::int64_t> memory_peak();
std::int64_t memory_available();

// How far the peak rises above the current use while `work` runs. Freed memory is returned to the system first, so that
// none of it is reused.
std::optional<std::int64_t> peak_growth(const std::function<void()>& work);

}  // namespace rapt::bench
