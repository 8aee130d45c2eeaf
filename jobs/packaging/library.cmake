# libstencil, its header, and how CMake (find_package(stencil), target stencil::library) and pkg-config find them.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/stencil)
set_target_properties(stencil_library PROPERTIES EXPORT_NAME library)
install(TARGETS stencil_library EXPORT stencil COMPONENT library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  NAMELINK_COMPONENT library PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT stencil NAMESPACE stencil:: FILE stencilConfig.cmake DESTINATION ${package} COMPONENT library)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/stencilConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/stencilConfigVersion.cmake DESTINATION ${package} COMPONENT library)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # a prefix may be chosen when it is installed
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/stencil.pc @ONLY CONTENT "prefix=\${pcfiledir}/@up@
Name: stencil
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L\${prefix}/@CMAKE_INSTALL_LIBDIR@ -lstencil
")
install(FILES ${CMAKE_BINARY_DIR}/stencil.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
# What pip puts beside the Python package: python/pyproject.toml.
install(FILES $<TARGET_FILE:stencil_library> DESTINATION stencil RENAME libstencil.so COMPONENT python EXCLUDE_FROM_ALL)
