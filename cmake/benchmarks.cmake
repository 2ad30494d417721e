include_guard(GLOBAL)

# The harness behind `rapt bench`: a library of its own, so that the tool stays thin.
file(GLOB rapt_benchmark_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benchmarks/*.cc")
find_package(PkgConfig REQUIRED)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
# What is timed here itself is compiled as the library is.
set(timed ${rapt_benchmark_sources})
list(FILTER timed INCLUDE REGEX "/(calls|check|growth|naive_row|peak|roofs|timing)\\.cc$")
list(REMOVE_ITEM rapt_benchmark_sources ${timed})
add_library(rapt_bench_timed OBJECT ${timed})
add_library(rapt_bench STATIC ${rapt_benchmark_sources} $<TARGET_OBJECTS:rapt_bench_timed>)
rapt_compile_quickly(rapt_bench)
rapt_batch(rapt_bench_timed 8)
rapt_batch(rapt_bench 12 APART "${PROJECT_SOURCE_DIR}/benchmarks/device_rows.cc")
# OpenBLAS's header alone: roofs.cc loads it when it is measured.
foreach(part IN ITEMS rapt_bench_timed rapt_bench)
  target_include_directories(${part} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_include_directories(${part} SYSTEM PRIVATE ${openblas_INCLUDE_DIRS})
  target_link_libraries(${part} PUBLIC rapt_train_static rapt_private PRIVATE hwy::hwy Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
