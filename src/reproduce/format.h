#pragma once

#include <cstdint>
#include <string>

// Numbers as the report writes them.
namespace rapt::reproduce {

std::string percent(double fraction, int decimals = 1);  // "99.9 %"
std::string significant(double x, int digits = 3);       // "0.0123", "1.2e-07"
std::string fixed(double x, int decimals);               // "0.850"
std::string grouped(std::int64_t n);                     // "5,760,400"
std::string duration(double seconds);                    // "0.41 s", "3 min 20 s"
std::string of(std::int64_t part, std::int64_t whole);   // "11 of 11"

}  // namespace rapt::reproduce
