# rapt::train: tensors, layers, models, training and tasks, above rapt::attend.
include(data)
find_package(nlohmann_json CONFIG REQUIRED)

rapt_embed("${PROJECT_SOURCE_DIR}/data/digits.bin" digits_bytes rapt_data_sources NAMESPACE "rapt::inline v1::tasks")

set(rapt_train_sources "")
foreach(layer IN ITEMS tensor layers models)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.cc")
  list(APPEND rapt_train_sources ${sources})
endforeach()
file(GLOB rapt_run_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/training/*.cc" "${PROJECT_SOURCE_DIR}/src/tasks/*.cc")
# Loops over all weights, pixels or texts.
set(loops ${rapt_run_sources})
list(FILTER loops INCLUDE REGEX
  "/(optimizer|pixel_scores|multitask_objective|metrics|text_scores|ray|scene_render|scenes|shapes|images|assignment)\\.cc$")
list(REMOVE_ITEM rapt_run_sources ${loops})
list(APPEND rapt_train_sources ${loops})
file(GLOB rapt_train_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/tensor/simd/*.cc")
rapt_objects(train SOURCES ${rapt_train_sources} LIGHT ${rapt_run_sources} ${rapt_data_sources} LEVEL -Og SMALL ${rapt_train_kernels})
foreach(part IN ITEMS objects light)
  rapt_batch(rapt_train_${part} 24 APART "${PROJECT_SOURCE_DIR}/src/tensor/dispatch.cc")
  target_link_libraries(rapt_train_${part} PRIVATE nlohmann_json::nlohmann_json)
endforeach()

rapt_library(train)
foreach(kind IN ITEMS static shared)
  target_link_libraries(rapt_train_${kind} PUBLIC rapt_attend_${kind})
endforeach()
