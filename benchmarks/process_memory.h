#pragma once

#include <cstdint>
#include <functional>
#include <optional>

// What the operating system says this process uses. None where it does not say.
namespace rapt::bench {

std::optional<std::int64_t> memory_now();
std::optional<std::int64_t> memory_peak();
std::int64_t memory_available();

// How far the peak rises while `work` runs, above what was in use before. Freed memory is given back first, so that
// nothing is served from what an earlier call left.
std::optional<std::int64_t> peak_growth(const std::function<void()>& work);

}  // namespace rapt::bench
