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

# The manual page, and completions. A wheel's go into the environment that it is installed in.
if(SKBUILD)
  set(data ${SKBUILD_DATA_DIR}/share)
  set(man ${data}/man)
else()
  set(data ${CMAKE_INSTALL_DATADIR})
  set(man ${CMAKE_INSTALL_MANDIR})
endif()
install(FILES docs/cufence.1 DESTINATION ${man}/man1)
# The program itself prints the completions, so they know every option; it does whenever it is linked, so that whoever builds it
# can install it. A program for another processor needs an emulator for that; without one there are none.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR OR CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(completions ${PROJECT_BINARY_DIR}/completions)
  file(MAKE_DIRECTORY ${completions})
  add_custom_command(TARGET cufence_cli POST_BUILD VERBATIM
    BYPRODUCTS ${completions}/cufence ${completions}/_cufence ${completions}/cufence.fish
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:cufence_cli> completion bash > ${completions}/cufence
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:cufence_cli> completion zsh > ${completions}/_cufence
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:cufence_cli> completion fish > ${completions}/cufence.fish)
  install(FILES ${completions}/cufence DESTINATION ${data}/bash-completion/completions)
  install(FILES ${completions}/_cufence DESTINATION ${data}/zsh/site-functions)
  install(FILES ${completions}/cufence.fish DESTINATION ${data}/fish/vendor_completions.d)
endif()

# The pages that `cufence docs` prints.
if(SKBUILD)
  set(pages docs)
else()
  set(pages ${CMAKE_INSTALL_DATADIR}/doc/cufence)
endif()
install(DIRECTORY docs/ DESTINATION ${pages} FILES_MATCHING PATTERN "*.md" PATTERN "*.schema.json"
  PATTERN examples EXCLUDE PATTERN screens EXCLUDE)

# The source of the demo's kernels, of which its reports show lines.
if(NOT SKBUILD)
  install(FILES allocator/cli/demo.cu DESTINATION ${CMAKE_INSTALL_DATADIR}/cufence)
endif()

if(SKBUILD)
  install(FILES allocator/cli/demo.cu DESTINATION .)
  install(FILES allocator/torch/cufence-startup.pth DESTINATION ${SKBUILD_PLATLIB_DIR})
endif()
