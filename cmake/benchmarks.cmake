include_guard(GLOBAL)

# The harness behind `rapt bench`: a library of its own, so that the tool stays thin.
file(GLOB rapt_benchmark_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/benchmarks/*.cc")
find_package(PkgConfig REQUIRED)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
add_library(rapt_bench STATIC ${rapt_benchmark_sources})
rapt_batch(rapt_bench 7)
target_include_directories(rapt_bench PUBLIC "${PROJECT_SOURCE_DIR}")
# OpenBLAS's header alone: roofs.cc loads it when it is measured.
target_include_directories(rapt_bench SYSTEM PRIVATE ${openblas_INCLUDE_DIRS})
target_link_libraries(rapt_bench PUBLIC rapt_train_static rapt_private PRIVATE hwy::hwy Threads::Threads ${CMAKE_DL_LIBS})
