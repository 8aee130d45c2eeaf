# What `cmake --install` brings, what the target `uninstall` takes away, and the .deb that the target `package` makes.
set(share ${CMAKE_INSTALL_DATADIR}/stencil)
install(TARGETS stencil RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY config/ DESTINATION ${share}/examples FILES_MATCHING PATTERN "*.ini")
# Tools for users, and the package that they import; those that draw the pages' figures need the source tree.
install(DIRECTORY jobs/ DESTINATION ${share}/jobs USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.py" PATTERN "*.ipynb" PATTERN "requirements.txt" PATTERN "restart.sbatch"
  PATTERN "survey.sbatch" PATTERN "__pycache__" EXCLUDE PATTERN "packaging" EXCLUDE
  REGEX "/plot_[a-z]+\\.py$" EXCLUDE)
install(DIRECTORY python/stencil DESTINATION ${share}/python FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(FILES LICENSE CITATION.cff README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "stencil.1" EXCLUDE)
install(FILES docs/stencil.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES jobs/stencil.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME stencil)

# CMake's own list, install_manifest.txt, becomes that of the .deb where one is made.
set(installed ${CMAKE_BINARY_DIR}/installed.txt)
install(CODE "if(NOT \"\$ENV{DESTDIR}\" MATCHES _CPack_Packages)
  list(JOIN CMAKE_INSTALL_MANIFEST_FILES \"\\n\" files)
  file(WRITE ${installed} \"\${files}\")
endif()")
add_custom_target(uninstall COMMENT ""
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${installed} -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${STENCIL_PACKAGE_VERSION})
set(CPACK_PACKAGE_CONTACT "the stencil authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin) # mpirun, and what a run without it asks for
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-numpy, python3-h5py, python3-matplotlib")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/prerm)
include(CPack)
