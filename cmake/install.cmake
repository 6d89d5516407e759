# Installs into the prefix of `cmake --install`, or into the package's folder in the wheel.

include(CMakePackageConfigHelpers)

install(TARGETS cufence cufence_preload cufence_sim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cufence_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/cufence.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# For find_package(cufence).
if(SKBUILD)
  set(package cmake)
  set(CUFENCE_LIBRARY_NAME libcufence.so)
else()
  set(CUFENCE_LIBRARY_NAME libcufence.so.${PROJECT_VERSION_MAJOR})
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/cufence)
endif()
configure_package_config_file(cmake/cufence-config.cmake.in ${PROJECT_BINARY_DIR}/cufence-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cufence-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cufence-config.cmake ${PROJECT_BINARY_DIR}/cufence-config-version.cmake
  DESTINATION ${package})

# For pkg-config: relative to where it lies, so that the tree can be moved.
if(NOT SKBUILD)
  file(RELATIVE_PATH CUFENCE_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(cmake/cufence.pc.in ${PROJECT_BINARY_DIR}/cufence.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cufence.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

# The manual page, and completions: the program itself prints them, so they know every option.
if(NOT SKBUILD)
  set(completions ${PROJECT_BINARY_DIR}/completions)
  file(MAKE_DIRECTORY ${completions})
  foreach(pair bash:cufence zsh:_cufence fish:cufence.fish)
    string(REGEX MATCH "^([a-z]+):(.+)$" matched ${pair})
    add_custom_command(OUTPUT ${completions}/${CMAKE_MATCH_2} DEPENDS cufence_cli VERBATIM
      COMMAND cufence_cli completion ${CMAKE_MATCH_1} > ${completions}/${CMAKE_MATCH_2})
    list(APPEND completion_files ${completions}/${CMAKE_MATCH_2})
  endforeach()
  add_custom_target(cufence_completions ALL DEPENDS ${completion_files})
  install(FILES ${completions}/cufence DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completions}/_cufence DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completions}/cufence.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(FILES docs/cufence.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# The source of the demo's kernels, of which its reports show lines.
if(NOT SKBUILD)
  install(FILES allocator/cli/demo.cu DESTINATION ${CMAKE_INSTALL_DATADIR}/cufence)
endif()

if(SKBUILD)
  install(FILES allocator/cli/demo.cu allocator/torch/shim.cpp DESTINATION .)
  install(FILES allocator/torch/cufence-startup.pth DESTINATION ${SKBUILD_PLATLIB_DIR})
endif()
