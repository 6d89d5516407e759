# Finds jansson and makes it part of libcufence.so, which may be copied to machines without jansson. Uses the static archive if
# it can be linked into a shared library (Debian's is made for executables, but works once its symbols are hidden). Otherwise
# copies the shared library next to libcufence.so, where its RUNPATH finds it.
# The target is cufence_jansson.

find_path(JANSSON_INCLUDE jansson.h REQUIRED)
find_library(JANSSON_ARCHIVE libjansson.a)
include(CheckLinkerFlag)
check_linker_flag(C -Wl,--exclude-libs,libjansson.a CUFENCE_EXCLUDES_LIBS) # zig's linker lacks it; cufence.map hides the symbols too
if(CUFENCE_EXCLUDES_LIBS)
  set(hide_jansson -Wl,--exclude-libs,libjansson.a)
endif()
if(JANSSON_ARCHIVE AND NOT DEFINED CUFENCE_JANSSON_EMBEDS)
  set(probe ${CMAKE_BINARY_DIR}/jansson-probe)
  file(WRITE ${probe}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(probe C)\n"
    "add_library(probe SHARED probe.c)\ntarget_include_directories(probe PRIVATE ${JANSSON_INCLUDE})\n"
    "target_link_options(probe PRIVATE ${hide_jansson})\ntarget_link_libraries(probe PRIVATE ${JANSSON_ARCHIVE})\n")
  file(WRITE ${probe}/probe.c "#include <jansson.h>\nchar *probe(void);\n"
    "char *probe(void) { return json_dumps(json_object(), 0); }\n")
  try_compile(CUFENCE_JANSSON_EMBEDS ${probe}/build ${probe} probe)
endif()

add_library(cufence_jansson INTERFACE)
target_include_directories(cufence_jansson SYSTEM INTERFACE ${JANSSON_INCLUDE})
if(CUFENCE_JANSSON_EMBEDS)
  target_link_options(cufence_jansson INTERFACE ${hide_jansson})
  target_link_libraries(cufence_jansson INTERFACE ${JANSSON_ARCHIVE})
else()
  find_library(JANSSON_SHARED jansson REQUIRED)
  file(REAL_PATH ${JANSSON_SHARED} jansson_file)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${jansson_file} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^\n]+)" soname "${headers}")
  file(MAKE_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  file(COPY_FILE ${jansson_file} ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${CMAKE_MATCH_1} ONLY_IF_DIFFERENT)
  target_link_libraries(cufence_jansson INTERFACE ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${CMAKE_MATCH_1})
  target_link_options(cufence_jansson INTERFACE -Wl,--enable-new-dtags)
  set(CMAKE_BUILD_RPATH $ORIGIN)
  set(CMAKE_INSTALL_RPATH $ORIGIN)
  install(FILES ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${CMAKE_MATCH_1} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
