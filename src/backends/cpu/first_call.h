#pragma once

namespace rapt::inline v1 {

// Makes now what the first call that needs it makes: registries, tables of kernels, the choice of the instruction set. A
// child that is forked while another thread makes one of them would wait for ever for that thread, which it does not have.
void make_what_calls_share() noexcept;

}  // namespace rapt::inline v1
