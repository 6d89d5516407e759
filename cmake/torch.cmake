# PyTorch's allocator, for each PyTorch whose headers torch_headers.py has put into .deps/torch: a folder is named after a minor release
# ("2.11"), or after the whole version of a PyTorch built from source ("2.12.0a0+git1234"). An object is linked against none of PyTorch's
# libraries: two empty ones with their names put those into the object's list of what it needs, and the loader resolves every symbol
# when the object is opened. libstdc++ comes the same way, through libc10.so.

file(GLOB torch_headers CONFIGURE_DEPENDS ${CUFENCE_TORCH_HEADERS}/2.[1-9][0-9] ${CUFENCE_TORCH_HEADERS}/*+*)
if(SKBUILD AND NOT torch_headers)
  message(WARNING "no headers of PyTorch in ${CUFENCE_TORCH_HEADERS}: PyTorch will allocate through its cudaMallocAsync back end under "
    "cufence. python3 cmake/torch_headers.py fetches them")
endif()
if(CUFENCE_SANITIZER OR (CMAKE_CROSSCOMPILING AND NOT SKBUILD))
  return()
endif()

# CMake would link zig's own C++ library statically: exceptions that it throws are none to PyTorch.
if(CUFENCE_LIBSTDCXX)
  set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")
endif()

file(WRITE ${CMAKE_BINARY_DIR}/torch/empty.c "")
foreach(name c10 c10_cuda)
  add_library(torch_${name} SHARED EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/torch/empty.c)
  set_target_properties(torch_${name} PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/torch)
endforeach()

foreach(headers ${torch_headers})
  get_filename_component(name ${headers} NAME) # as adopt.c looks for it
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" matched ${name})
  math(EXPR number "${CMAKE_MATCH_1} * 10000 + ${CMAKE_MATCH_2} * 100")
  add_library(torch_${name} MODULE allocator/torch/allocator.cpp)
  target_compile_definitions(torch_${name} PRIVATE CUFENCE_TORCH_VERSION=${number} _GLIBCXX_USE_CXX11_ABI=1)
  target_compile_options(torch_${name} PRIVATE -Wall -Wextra ${CUFENCE_LIBSTDCXX})
  if(number GREATER_EQUAL 21400)
    target_compile_features(torch_${name} PRIVATE cxx_std_20)
  endif()
  target_include_directories(torch_${name} SYSTEM PRIVATE allocator/torch/cuda ${headers})
  target_link_options(torch_${name} PRIVATE -Wl,--no-as-needed -Wl,-z,now)
  target_link_libraries(torch_${name} PRIVATE torch_c10 torch_c10_cuda cufence)
  set_target_properties(torch_${name} PROPERTIES PREFIX "libcufence-torch-" OUTPUT_NAME ${name} LINKER_LANGUAGE C SKIP_BUILD_RPATH ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/torch)
  install(TARGETS torch_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/torch OPTIONAL)
endforeach()
