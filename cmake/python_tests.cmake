# tests/python with NumPy alone; `make test-python` runs all of it. The package stands in the build tree as it is installed.
if(NOT RAPT_BUILD_PYTHON)
  rapt_skipped_test(python/numpy "the build has no Python module; scripts/python_env says why")
  return()
endif()
add_test(NAME python/numpy COMMAND "${Python_EXECUTABLE}" -B -m pytest -q -p no:cacheprovider "${PROJECT_SOURCE_DIR}/tests/python")
set_tests_properties(python/numpy PROPERTIES TIMEOUT 600 LABELS python ENVIRONMENT
  "PYTHONPATH=${rapt_python_package};PYTHONDONTWRITEBYTECODE=1;RAPT_SKIPPED=${PROJECT_BINARY_DIR}/python_skipped.txt;RAPT_TOOL=$<$<TARGET_EXISTS:rapt_cli>:$<TARGET_FILE:rapt_cli>>;RAPT_LIBRARIES=$<TARGET_FILE_DIR:rapt_attend_shared>")
