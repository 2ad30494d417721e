# Most of the time goes into reading the same large headers again and again.
function(rapt_precompile)
  if(TARGET rapt_cli_lib)
    target_precompile_headers(rapt_cli_lib PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp>)
  endif()
endfunction()
cmake_language(DEFER CALL rapt_precompile)
