# Compiles one mechanism, SOURCE, with the compiler CXX and the header folders INCLUDES. One of wrong/ must be refused with
# the sentence of its first line, one of right/ must compile without a warning.
cmake_minimum_required(VERSION 3.25)

list(TRANSFORM INCLUDES PREPEND "-I")
execute_process(COMMAND "${CXX}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only ${INCLUDES} "${SOURCE}"
                RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT SOURCE MATCHES "/wrong/")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${SOURCE} does not compile:\n${text}")
  endif()
  return()
endif()

file(READ "${SOURCE}" source)
if(NOT source MATCHES "^// expected: (rapt: [^\n]+)\n")
  message(FATAL_ERROR "${SOURCE}: expected the sentence in the first line: // expected: rapt: …")
endif()
string(FIND "${text}" "${CMAKE_MATCH_1}" place)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles; expected: ${CMAKE_MATCH_1}")
elseif(place LESS 0)
  message(FATAL_ERROR "${SOURCE} is refused without the sentence: ${CMAKE_MATCH_1}\n${text}")
endif()
