#pragma once

#include <cstdint>

namespace rapt::bench {

// Runs `rounds` rounds of multiply-adds on registers, on the active instruction set; returns the operations done.
double run_fmas(std::int64_t rounds);

}  // namespace rapt::bench
