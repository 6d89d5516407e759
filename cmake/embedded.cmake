# Libraries that become part of libcufence.so, which may be copied to machines without them.

include(CheckLinkerFlag)
check_linker_flag(C -Wl,--exclude-libs,libjansson.a CUFENCE_EXCLUDES_LIBS) # zig's linker lacks it; public.map hides the symbols too

# Makes the target cufence_NAME of the library NAME, whose header (in NAME_INCLUDE) has the function that `call` calls. Uses the static archive if it
# can be linked into a shared library (Debian's are made for executables, but work once their symbols are hidden). Otherwise copies
# the shared library next to libcufence.so, where its RUNPATH finds it.
macro(cufence_embed_library name header call)
  string(TOUPPER ${name} upper)
  find_library(${upper}_ARCHIVE lib${name}.a)
  add_library(cufence_${name} INTERFACE)
  target_include_directories(cufence_${name} SYSTEM INTERFACE ${${upper}_INCLUDE})
  set(hide)
  if(CUFENCE_EXCLUDES_LIBS)
    set(hide -Wl,--exclude-libs,lib${name}.a)
  endif()
  target_link_options(cufence_${name} INTERFACE ${hide})
  if(${upper}_ARCHIVE AND NOT DEFINED CUFENCE_${upper}_EMBEDS)
    set(probe ${CMAKE_BINARY_DIR}/${name}-probe)
    file(WRITE ${probe}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(probe C)\n"
      "add_library(probe SHARED probe.c)\ntarget_include_directories(probe PRIVATE ${${upper}_INCLUDE})\n"
      "target_link_options(probe PRIVATE ${hide})\n"
      "target_link_libraries(probe PRIVATE ${${upper}_ARCHIVE})\n")
    file(WRITE ${probe}/probe.c "#include <stddef.h>\n#include <${header}>\nvoid *probe(void);\nvoid *probe(void) { return (void *)${call}; }\n")
    try_compile(CUFENCE_${upper}_EMBEDS ${probe}/build ${probe} probe)
  endif()
  if(CUFENCE_${upper}_EMBEDS)
    target_link_libraries(cufence_${name} INTERFACE ${${upper}_ARCHIVE})
  else()
    find_library(${upper}_SHARED ${name} REQUIRED)
    file(REAL_PATH ${${upper}_SHARED} shared)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${shared} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "SONAME +([^\n]+)" soname "${headers}")
    set(copy ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${CMAKE_MATCH_1})
    file(MAKE_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
    file(COPY_FILE ${shared} ${copy} ONLY_IF_DIFFERENT)
    target_link_libraries(cufence_${name} INTERFACE ${copy})
    target_link_options(cufence_${name} INTERFACE -Wl,--enable-new-dtags)
    set(CMAKE_BUILD_RPATH $ORIGIN)
    set(CMAKE_INSTALL_RPATH $ORIGIN)
    install(FILES ${copy} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endmacro()

cufence_embed_library(jansson jansson.h "json_dumps(json_object(), 0)")
cufence_embed_library(zstd zstd.h "ZSTD_decompress(NULL, 0, NULL, 0)")
