# rapt::train: tensors, layers, models, training and tasks, above rapt::attend.
include(data)
find_package(nlohmann_json CONFIG REQUIRED)

rapt_embed("${PROJECT_SOURCE_DIR}/data/digits.bin" digits_bytes rapt_data_sources NAMESPACE "rapt::inline v1::tasks")

set(rapt_train_sources "")
foreach(layer IN ITEMS tensor layers models training tasks)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.cc")
  list(APPEND rapt_train_sources ${sources})
endforeach()
file(GLOB rapt_train_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/tensor/simd/*.cc")
rapt_objects(train SOURCES ${rapt_train_sources} ${rapt_data_sources} KERNELS ${rapt_train_kernels})
rapt_batch(rapt_train_objects 8)
target_link_libraries(rapt_train_objects PRIVATE nlohmann_json::nlohmann_json)

rapt_library(train)
foreach(kind IN ITEMS static shared)
  target_link_libraries(rapt_train_${kind} PUBLIC rapt_attend_${kind})
endforeach()
