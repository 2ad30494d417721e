# Writes wgmma.h: a function for each width of wgmma that a kernel uses. The instruction names every register of its
# accumulator, so no text serves all widths.
set(functions "")
foreach(width IN ITEMS 32 48 64 80 96 112 128 160 192 256)
  math(EXPR count "${width} / 2")
  math(EXPR last "${count} - 1")
  set(registers "")
  set(outputs "")
  foreach(n RANGE ${last})
    list(APPEND registers "%${n}")
    list(APPEND outputs "\"+f\"(d[${n}])")
  endforeach()
  list(JOIN registers ", " registers)
  list(JOIN outputs ", " outputs)
  foreach(type IN ITEMS Bf16 F16)
    string(TOLOWER ${type} name)
    foreach(from IN ITEMS memory registers)
      if(from STREQUAL "memory")
        set(argument "std::uint64_t a")
        set(inputs "\"l\"(a)")
        set(operand "%${count}")
        math(EXPR b "${count} + 1")
        math(EXPR left_down "${b} + 3")
        set(kinds "SumOver kSum, SumOver kLeft = SumOver::rows")
        set(left "%${left_down}, ")
        set(last_input ", \"n\"(int(kLeft == SumOver::columns))")
      else()
        set(argument "const std::uint32_t (&a)[4]")
        set(inputs "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])")
        set(places "")
        foreach(n RANGE 3)
          math(EXPR place "${count} + ${n}")
          list(APPEND places "%${place}")
        endforeach()
        list(JOIN places ", " places)
        set(operand "{${places}}")
        math(EXPR b "${count} + 4")
        set(kinds "SumOver kSum")
        set(left "")
        set(last_input "")
      endif()
      math(EXPR add "${b} + 1")
      math(EXPR down "${b} + 2")
      string(APPEND functions "
template <${kinds}>
RAPT_DEVICE void wgmma(float (&d)[${count}], ${argument}, std::uint64_t b, ${type}, bool add) {
  asm volatile(
      \"{\\n.reg .pred p;\\nsetp.ne.b32 p, %${add}, 0;\\n\"
      \"wgmma.mma_async.sync.aligned.m64n${width}k16.f32.${name}.${name} {${registers}}, \"
      \"${operand}, %${b}, p, 1, 1, ${left}%${down};\\n}\"
      : ${outputs}
      : ${inputs}, \"l\"(b), \"r\"(int(add)), \"n\"(int(kSum == SumOver::columns))${last_input});
}
")
    endforeach()
  endforeach()
endforeach()
file(CONFIGURE OUTPUT "${rapt_generated}/private/backends/cuda/hopper/wgmma.h" @ONLY CONTENT "#pragma once

// d = a·b + (add ? d : 0), 64 rows; d[4n + e] of a thread is row 16·warp + lane/4 + 8·(e/2) and column
// 8n + 2·(lane%4) + e%2. a lies in shared memory or in registers.
#include \"backends/cuda/hopper/sm90.h\"

namespace rapt::inline v1::cuda {
@functions@
}  // namespace rapt::inline v1::cuda
")
