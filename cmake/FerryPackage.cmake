# The installed package: find_package(ferry) gives the target ferry::ferry. libferry.so hides the libraries it is built
# on, so users of the package need none of their headers.

include(CMakePackageConfigHelpers)

set(_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ferry)

install(TARGETS ferry EXPORT ferryTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ferryTargets NAMESPACE ferry:: DESTINATION ${_package_folder})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ferryConfig.cmake.in ${PROJECT_BINARY_DIR}/ferryConfig.cmake
  INSTALL_DESTINATION ${_package_folder})
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ferryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ferryConfig.cmake ${PROJECT_BINARY_DIR}/ferryConfigVersion.cmake
  DESTINATION ${_package_folder})
