# Worked examples and counts, behind `rapt solve`, `rapt count` and `rapt reproduce`.
include_guard(GLOBAL)
include(pictures)
find_package(nlohmann_json CONFIG REQUIRED)

file(GLOB rapt_solve_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/solve/*.cc")
add_library(rapt_solve STATIC ${rapt_solve_sources})
rapt_compile_quickly(rapt_solve)
rapt_batch(rapt_solve 12)
target_link_libraries(rapt_solve PUBLIC rapt_train_static rapt_private rapt_pictures nlohmann_json::nlohmann_json)
