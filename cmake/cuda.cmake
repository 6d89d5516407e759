# Finds cuda.h (from the toolkit, or from PyPI through `./dev` or pip) and, optionally, nvcc.
# Sets CUFENCE_CUDA_INCLUDE_DIR and CUFENCE_NVCC.

find_path(CUFENCE_CUDA_INCLUDE_DIR cuda.h
  HINTS ${CUFENCE_CUDA_INCLUDE} ${CMAKE_BINARY_DIR}/../.deps/cuda/include $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
        /usr/local/cuda/include /usr/lib/cuda/include
  PATH_SUFFIXES nvidia/cu13/include) # in site-packages: the wheel that pyproject.toml requires for the build
if(NOT CUFENCE_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h not found: install a CUDA Toolkit, or run ./dev build, which fetches the header, "
                      "or give -DCUFENCE_CUDA_INCLUDE=<folder>")
endif()
find_program(CUFENCE_NVCC nvcc HINTS ${CMAKE_BINARY_DIR}/../.deps/cuda/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
set(CUFENCE_CUDA_ARCHITECTURES "75;80;90" CACHE STRING "Machine code to build kernels for; PTX of the first is added")

# cufence_embed_kernels(TARGET FOLDER): compiles each .cu file of FOLDER, with line information, into a fat binary, and makes a
# header kernels/<name>.h for TARGET with `static const unsigned char <name>_fatbin[]`. Line information holds the file's bare
# name: nvcc would put the folder on the machine of the build in front, so that is cut out of the PTX.
# Without nvcc, TARGET is compiled with CUFENCE_NO_KERNELS defined.
function(cufence_embed_kernels target folder)
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
  if(NOT CUFENCE_NVCC)
    target_compile_definitions(${target} PRIVATE CUFENCE_NO_KERNELS)
    return()
  endif()
  list(GET CUFENCE_CUDA_ARCHITECTURES 0 lowest)
  set(codes -gencode arch=compute_${lowest},code=compute_${lowest})
  foreach(arch ${CUFENCE_CUDA_ARCHITECTURES})
    list(APPEND codes -gencode arch=compute_${lowest},code=sm_${arch})
  endforeach()
  file(REAL_PATH ${PROJECT_SOURCE_DIR}/${folder} real)
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    get_filename_component(file ${kernel} NAME)
    set(header ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.h)
    set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx)
    add_custom_command(OUTPUT ${header}
      COMMAND ${CUFENCE_NVCC} -ptx -lineinfo -arch=compute_${lowest} -o ${ptx} ${file}
      COMMAND sed -i "/^[[:space:]]*[.]file/s|\"${real}/|\"|" ${ptx}
      COMMAND ${CUFENCE_NVCC} -fatbin -lineinfo ${codes} -o ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin ${ptx}
      COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin -DOUTPUT=${header} -DNAME=${name}_fatbin
              -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
      WORKING_DIRECTORY ${real}
      DEPENDS ${kernel} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    target_sources(${target} PRIVATE ${header})
  endforeach()
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
