# One helper declares a library, its tests and its dependencies:
#
#   tf_library(license
#     SOURCES parse.h parse.cc verify.h verify.cc
#     DEPS    base absl::status OpenSSL::Crypto      # arrows: only rooms named here may be included
#     TESTS   parse_test.cc verify_test.cc)
#
# Every header is listed: a header belongs to the library that lists it, and tools/check_arrows fails when a source
# includes a header of a library that is not among its DEPS (or their DEPS).
#
#   tf_program(tfctl SOURCES main.cc DEPS license CLI11::CLI11)
#   tf_shared(cuda_client OUTPUT libcuda.so.1 FOLDER lib/client EXPORTS file.map SOURCES … DEPS …)

# Where src/cuda/generate writes.
set(TF_GENERATED ${CMAKE_BINARY_DIR}/generated/cuda)

# All that `ctest -L unit` runs: what the sanitizer builds build.
add_custom_target(unit_tests)

set_property(GLOBAL PROPERTY TF_ARROWS "")

function(_tf_record kind name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(JOIN "," sources ${A_SOURCES})
  string(JOIN "," deps ${A_DEPS})
  set_property(GLOBAL APPEND PROPERTY TF_ARROWS "${kind}|${name}|${folder}|${sources}|${deps}")
endfunction()

function(tf_library name)
  cmake_parse_arguments(A "ONE_THREAD" "" "SOURCES;DEPS;TESTS;TEST_DEPS" ${ARGN})
  _tf_record(library ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  add_library(${name} STATIC ${A_SOURCES})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${A_DEPS} Threads::Threads)
  if(A_TESTS)
    set(one_thread)
    if(A_ONE_THREAD)
      set(one_thread ONE_THREAD)
    endif()
    tf_test(${name}_test ${one_thread} SOURCES ${A_TESTS} DEPS ${name} ${A_DEPS} ${A_TEST_DEPS})
  endif()
endfunction()

# A GoogleTest program, one ctest entry. Label "unit": runs under the sanitizers too; but not under ThreadSanitizer when
# neither the test nor what it tests knows more than ONE_THREAD, for there is nothing that it could find.
function(tf_test name)
  cmake_parse_arguments(A "ONE_THREAD" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  _tf_record(test ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  if(A_ONE_THREAD AND TF_SANITIZE MATCHES "thread")
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${A_TIMEOUT})
  add_dependencies(unit_tests ${name})
endfunction()

function(tf_program name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  _tf_record(program ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  add_executable(${name} ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${A_DEPS})
endfunction()

# A shared library with an exact file name and nothing exported but what its version script names.
function(tf_shared name)
  cmake_parse_arguments(A "" "OUTPUT;FOLDER;EXPORTS" "SOURCES;DEPS" ${ARGN})
  _tf_record(library ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  add_library(${name} SHARED ${A_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${A_DEPS})
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX "" OUTPUT_NAME ${A_OUTPUT} NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${A_FOLDER}
    LINK_DEPENDS ${A_EXPORTS})
  # nodelete: threads of the library may outlive a dlclose.
  # Bsymbolic-functions: two of our libraries with the same symbols in one process do not call into one another.
  target_link_options(${name} PRIVATE
    -Wl,-soname,${A_OUTPUT} -Wl,-Bsymbolic-functions -Wl,--version-script=${A_EXPORTS} -Wl,-z,nodelete -Wl,-z,defs)
endfunction()

# A libFuzzer target: built with clang as a fuzzer (-DTF_FUZZ=ON); otherwise a program that replays its corpus under
# ctest, so that what was found once stays a test.
function(tf_fuzzer name)
  cmake_parse_arguments(A "ONE_THREAD" "CORPUS" "SOURCES;DEPS" ${ARGN})
  _tf_record(program ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  if(A_ONE_THREAD AND TF_SANITIZE MATCHES "thread")
    return()
  endif()
  if(TF_FUZZ)
    add_executable(${name} ${A_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${A_SOURCES} ${CMAKE_SOURCE_DIR}/fuzz/replay_main.cc)
    add_test(NAME ${name}_replay COMMAND ${name} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${A_CORPUS})
    set_tests_properties(${name}_replay PROPERTIES LABELS unit TIMEOUT 300)
    add_dependencies(unit_tests ${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${A_DEPS})
endfunction()

function(tf_write_arrows)
  get_property(lines GLOBAL PROPERTY TF_ARROWS)
  string(JOIN "\n" text ${lines})
  file(WRITE ${CMAKE_BINARY_DIR}/arrows.txt "${text}\n")
  add_test(NAME arrows
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_arrows ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/arrows.txt)
  set_tests_properties(arrows PROPERTIES LABELS unit)
endfunction()
