#pragma once

#include <cstddef>

// Every allocation of this program is counted, so that nothing asks for memory unseen.
namespace rapt::test {

std::size_t allocated_bytes();
std::size_t allocations();

}  // namespace rapt::test
