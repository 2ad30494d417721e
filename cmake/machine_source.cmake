# Rewrites a file of kernels as C++ for the machine of tests/cuda/machine: cmake -DFROM=… -DTO=… -P machine_source.cmake
file(READ "${FROM}" text)
string(REGEX REPLACE "([A-Za-z0-9_:]+(<[^;<>]*>)?)<<<([^;]*)>>>"
       "::machine::Launch(\\3)([&](auto... rapt_x) { \\1(rapt_x...); })" text "${text}")
string(REGEX REPLACE "extern __shared__ ([A-Za-z0-9_:]+) ([a-z]+)\\[\\];" "auto* const \\2 = ::machine::shared<\\1>();"
       text "${text}")
string(REPLACE " __noinline__" " __attribute__((noinline))" text "${text}")
# One register of x86 for each number of a fragment would be too many.
string(REPLACE "asm volatile(\"\" : \"+f\"(x[n])::\"memory\")" "(void)x" text "${text}")
file(WRITE "${TO}" "${text}")
