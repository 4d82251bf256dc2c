# SPDX-License-Identifier: Apache-2.0
# What "make install" places: the library with its soname, the headers, pkg-config and CMake packages, the command and its names.
include(CMakePackageConfigHelpers)

install(TARGETS motet EXPORT motetTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/motet.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/motet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/motet)
install(EXPORT motetTargets NAMESPACE motet:: DESTINATION ${package_dir})
write_basic_package_version_file(motetConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES cmake/motetConfig.cmake ${CMAKE_BINARY_DIR}/motetConfigVersion.cmake DESTINATION ${package_dir})

configure_file(cmake/motet.pc.in motet.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/motet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET motet_command)
    install(TARGETS motet_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    foreach(name ${motet_perf_names})
        install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name} DESTINATION ${CMAKE_INSTALL_BINDIR})
    endforeach()
endif()
if(TARGET motet_printed)
    install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${printed_dir}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME motet)
    install(FILES ${printed_dir}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _motet)
    install(FILES ${printed_dir}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME motet.fish)
endif()
