#pragma once

namespace rapt::inline v1 {

// Does the first call's initialisation now: registries, tables of kernels, the choice of the instruction set. A child
// forked while another thread initialises one of them would wait forever for that thread.
void make_what_calls_share() noexcept;

}  // namespace rapt::inline v1
