# One helper declares a library, its tests and its dependencies:
#
#   tf_library(license
#     SOURCES parse.h parse.cc verify.h verify.cc
#     DEPS    base absl::status OpenSSL::Crypto      # arrows: only rooms named here may be included
#     TESTS   parse_test.cc verify_test.cc)
#
# ONE_THREAD: nothing of it knows threads, so ThreadSanitizer stays out. APART: its sources (or those of its tests) use the
# same names for different things of their own, so that they are never compiled as one.
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

# What the target compiles, in `sources`. Most of a compile is reading headers, so sources of a target that is not APART are
# compiled several as one: a few of a library, so that a change still compiles soon, more of a test, which is compiled
# without optimisation, and all of them in sanitizer builds. Sources that have properties of their own stay alone. The paths
# in a joined file are relative, so that ccache knows it in another clone.
function(_tf_join_sources name size)
  if(A_APART)
    set(sources ${A_SOURCES} PARENT_SCOPE)
    return()
  endif()
  set(sources)
  set(candidates)
  foreach(source ${A_SOURCES})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(depends ${source} OBJECT_DEPENDS)
    if(source MATCHES "^[^/$][^$]*\\.cc$" AND NOT options AND NOT definitions AND NOT depends)
      list(APPEND candidates ${source})
    else()
      list(APPEND sources ${source})
    endif()
  endforeach()
  if(TF_SANITIZE)
    set(size 1000)
  endif()
  set(number 0)
  while(candidates)
    list(SUBLIST candidates 0 ${size} joined)
    list(REMOVE_ITEM candidates ${joined})
    list(LENGTH joined count)
    if(count EQUAL 1)
      list(APPEND sources ${joined})
      break()
    endif()
    set(text)
    foreach(source ${joined})
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    math(EXPR number "${number} + 1")
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.joined${number}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it takes what the main file does not say itself for a header's
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -Wno-subobject-linkage)
    endif()
    list(APPEND sources ${file})
  endwhile()
  set(sources ${sources} PARENT_SCOPE)
endfunction()

function(tf_library name)
  cmake_parse_arguments(A "ONE_THREAD;APART" "" "SOURCES;DEPS;TESTS;TEST_DEPS" ${ARGN})
  _tf_record(library ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  _tf_join_sources(${name} 4)
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${A_DEPS} Threads::Threads)
  if(A_TESTS)
    set(options)
    foreach(option ONE_THREAD APART)
      if(A_${option})
        list(APPEND options ${option})
      endif()
    endforeach()
    tf_test(${name}_test ${options} SOURCES ${A_TESTS} DEPS ${name} ${A_DEPS} ${A_TEST_DEPS})
  endif()
endfunction()

# A GoogleTest program, one ctest entry. Label "unit": runs under the sanitizers too; but not under ThreadSanitizer when
# neither the test nor what it tests knows more than ONE_THREAD, for there is nothing that it could find.
function(tf_test name)
  cmake_parse_arguments(A "ONE_THREAD;APART" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  _tf_record(test ${name} SOURCES ${A_SOURCES} DEPS ${A_DEPS})
  if(A_ONE_THREAD AND TF_SANITIZE MATCHES "thread")
    return()
  endif()
  _tf_join_sources(${name} 8)
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -O0)  # compile time counts here, and what is tested keeps its options
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
    -Wl,-soname,${A_OUTPUT} -Wl,-Bsymbolic-functions -Wl,--version-script=${A_EXPORTS} -Wl,-z,nodelete)
  # Clang leaves a sanitizer's functions to the program that loads the library.
  if(NOT TF_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
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
