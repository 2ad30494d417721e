# Pictures are a library of their own: programs that link Rapt for attention or training need neither fonts nor a
# renderer.
include_guard(GLOBAL)
find_package(PkgConfig REQUIRED)
pkg_check_modules(rsvg REQUIRED IMPORTED_TARGET librsvg-2.0>=2.50 fontconfig)

file(GLOB rapt_picture_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/pictures/*.cc")
add_library(rapt_pictures STATIC ${rapt_picture_sources})
rapt_compile_quickly(rapt_pictures)
set(apart centers heatmap heatmap_grid image_sheet scaling terminal)
list(TRANSFORM apart REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/pictures/\\1.cc")
rapt_batch(rapt_pictures 16 APART ${apart})
# Its headers alone: src/pictures/libraries.cc loads the rest with the first picture.
target_include_directories(rapt_pictures SYSTEM PRIVATE ${rsvg_INCLUDE_DIRS})
target_link_libraries(rapt_pictures PUBLIC rapt_train_static PRIVATE rapt_private ${CMAKE_DL_LIBS})
