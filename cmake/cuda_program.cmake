# Builds CUDA C++ programs with clang alone; NVIDIA's toolkit is not needed.
#
#   include(cmake/cuda_program.cmake)
#   tf_cuda_program(my_program SOURCES my_program.cu        # programs land in build/examples
#     [ARCH sm_75]                                          # the lowest card that it shall run on (default sm_75)
#     [INCLUDES folder …]                                   # where it finds its headers, besides its own folder
#     [DEPS Threads::Threads …])                            # libraries to link with
#
# A .cu source may use <<<>>> and the device functions of include/tensor_fusion/cuda_runtime.h; any other source is plain
# C++. Programs with a .cu source link with libcudart.so.12, programs without one use the driver API and link with
# libcuda.so.1. The loader finds libcudart.so.12 in ../lib/cudart beside the program, and libcuda.so.1 as on any CUDA
# machine: in LD_LIBRARY_PATH or in the system's folders.
#
# By hand, for one file, the same in three commands:
#
#   cuda="-x cuda --cuda-gpu-arch=sm_75 -nocudainc -nocudalib -Xclang -target-sdk-version=12.0 -Iinclude"
#   clang++-19 -O2 $cuda --cuda-device-only --cuda-feature=+ptx63 -S x.cu -o x.ptx       # device code, as text
#   tools/make_fatbin x.fatbin sm_75=x.ptx
#   clang++-19 -O2 $cuda --cuda-host-only -Xclang -fcuda-include-gpubinary -Xclang x.fatbin -c x.cu -o x.o
#   clang++-19 x.o -o x build/lib/cudart/libcudart.so.12

find_program(TF_CLANG_CUDA NAMES clang++-19 clang++ DOC "The clang that compiles CUDA C++")
if(NOT TF_CLANG_CUDA)
  message(FATAL_ERROR "clang 19 is needed for the CUDA programs: install it with `make setup` or set TF_CLANG_CUDA")
endif()

# The PTX version that an architecture came with; clang would choose an older one and refuse newer instructions.
set(_TF_PTX_sm_70 ptx60)
set(_TF_PTX_sm_72 ptx61)
set(_TF_PTX_sm_75 ptx63)
set(_TF_PTX_sm_80 ptx70)
set(_TF_PTX_sm_86 ptx71)
set(_TF_PTX_sm_89 ptx78)
set(_TF_PTX_sm_90 ptx78)

set(_TF_MAKE_FATBIN ${CMAKE_CURRENT_LIST_DIR}/../tools/make_fatbin)
set(_TF_MAKE_IMPORT_LIBRARY ${CMAKE_CURRENT_LIST_DIR}/../tools/make_import_library)
set(_TF_PUBLIC_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/../include)
cmake_path(NORMAL_PATH _TF_PUBLIC_INCLUDE)

# Runs clang on SOURCE for one side; the headers it read become dependencies of OUTPUT.
function(_tf_clang_cuda source output)
  list(TRANSFORM A_INCLUDES PREPEND -I OUTPUT_VARIABLE includes)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${TF_CLANG_CUDA} -std=c++20 -O2 -Wall -Wextra -Werror -fPIC -x cuda --cuda-gpu-arch=${A_ARCH} -nocudainc
            -nocudalib -Xclang -target-sdk-version=12.0 -I${_TF_PUBLIC_INCLUDE} -I${CMAKE_CURRENT_SOURCE_DIR} ${includes}
            -MD -MT ${output} -MF ${output}.d ${ARGN} ${source} -o ${output}
    DEPENDS ${source} ${A_INPUTS}
    DEPFILE ${output}.d
    COMMENT "Building CUDA ${output}"
    VERBATIM)
endfunction()

function(tf_cuda_program name)
  cmake_parse_arguments(A "" "ARCH" "SOURCES;INCLUDES;DEPS" ${ARGN})
  if(NOT A_ARCH)
    set(A_ARCH sm_75)
  endif()
  if(NOT DEFINED _TF_PTX_${A_ARCH})
    message(FATAL_ERROR "tf_cuda_program(${name}): unknown ARCH ${A_ARCH}; known: sm_70 72 75 80 86 89 90")
  endif()
  set(objects)
  set(library cuda_import)
  foreach(source ${A_SOURCES})
    if(NOT source MATCHES "\\.cu$")
      list(APPEND objects ${source})
      continue()
    endif()
    set(library cudart12)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE file)
    cmake_path(GET source STEM stem)
    set(stem ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir/${stem})
    set(A_INPUTS)
    _tf_clang_cuda(${file} ${stem}.ptx --cuda-device-only --cuda-feature=+${_TF_PTX_${A_ARCH}} -S)
    add_custom_command(
      OUTPUT ${stem}.fatbin
      COMMAND ${Python3_EXECUTABLE} ${_TF_MAKE_FATBIN} ${stem}.fatbin ${A_ARCH}=${stem}.ptx
      DEPENDS ${stem}.ptx ${_TF_MAKE_FATBIN}
      VERBATIM)
    set(A_INPUTS ${stem}.fatbin)
    _tf_clang_cuda(${file} ${stem}.o --cuda-host-only -Xclang -fcuda-include-gpubinary -Xclang ${stem}.fatbin -c)
    list(APPEND objects ${stem}.o)
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir)
  add_executable(${name} ${objects})
  target_include_directories(${name} PRIVATE ${_TF_PUBLIC_INCLUDE} ${CMAKE_CURRENT_SOURCE_DIR} ${A_INCLUDES})
  target_link_libraries(${name} PRIVATE ${library} ${A_DEPS})
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE CXX
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN/../lib/cudart")
endfunction()

# build/lib/import/libcuda.so: the names of the driver API to link with, and no code; which libcuda.so.1 a program meets
# is settled when it starts. build/generated/cuda/driver_prototypes.h: what include/tensor_fusion/cuda.h declares.
function(tf_cuda_import_library table)
  set(source ${CMAKE_BINARY_DIR}/generated/cuda/driver_import.cc)
  set(header ${CMAKE_BINARY_DIR}/generated/cuda/driver_prototypes.h)
  add_custom_command(
    OUTPUT ${source} ${header}
    COMMAND ${Python3_EXECUTABLE} ${_TF_MAKE_IMPORT_LIBRARY} ${table} ${source} ${header}
    DEPENDS ${table} ${_TF_MAKE_IMPORT_LIBRARY}
    VERBATIM)
  add_library(cuda_import SHARED ${source} ${header})
  target_include_directories(cuda_import INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  set_target_properties(cuda_import PROPERTIES
    OUTPUT_NAME cuda NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/import)
  target_link_options(cuda_import PRIVATE -Wl,-soname,libcuda.so.1)
endfunction()
