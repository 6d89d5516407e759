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

# The manual page, and bash's completions. A wheel's go into the environment that it is installed in.
if(SKBUILD)
  set(data ${SKBUILD_DATA_DIR}/share)
  set(man ${data}/man)
else()
  set(data ${CMAKE_INSTALL_DATADIR})
  set(man ${CMAKE_INSTALL_MANDIR})
endif()
install(FILES docs/cufence.1 DESTINATION ${man}/man1)
install(FILES allocator/cli/completion.bash DESTINATION ${data}/bash-completion/completions RENAME cufence)

# The pages that messages name, and the examples; `cufence --help` says where they are.
if(SKBUILD)
  set(pages docs)
else()
  set(pages ${CMAKE_INSTALL_DATADIR}/doc/cufence)
endif()
install(DIRECTORY docs/ DESTINATION ${pages} FILES_MATCHING PATTERN "*.md" PATTERN "*.schema.json"
  PATTERN examples EXCLUDE PATTERN screens EXCLUDE)
install(DIRECTORY docs/examples DESTINATION ${pages} PATTERN __pycache__ EXCLUDE)

# The source of the demo's kernels, of which its reports show lines.
if(NOT SKBUILD)
  install(FILES allocator/cli/demo.cu DESTINATION ${CMAKE_INSTALL_DATADIR}/cufence)
endif()

if(SKBUILD)
  install(FILES allocator/cli/demo.cu DESTINATION .)
  install(FILES allocator/torch/cufence-startup.pth DESTINATION ${SKBUILD_PLATLIB_DIR})
endif()
