# Installs into the prefix of `cmake --install`, or into the package's folder in the wheel.

include(CMakePackageConfigHelpers)

install(TARGETS cufence cufence_preload cufence_sim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cufence_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/cufence.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# For find_package(cufence).
if(SKBUILD)
  set(package cmake)
else()
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/cufence)
endif()
configure_package_config_file(cmake/cufence-config.cmake.in ${PROJECT_BINARY_DIR}/cufence-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cufence-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cufence-config.cmake ${PROJECT_BINARY_DIR}/cufence-config-version.cmake
  DESTINATION ${package})

if(SKBUILD)
  install(FILES allocator/torch/shim.cpp DESTINATION .)
  install(FILES allocator/torch/cufence-startup.pth DESTINATION ${SKBUILD_PLATLIB_DIR})
endif()
