# cmake --install: binary, library, headers, models, sluice.pc and the CMake package.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")

if(SL_HAVE_BINARY)
    install(TARGETS sluice_bin RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" OPTIONAL
    FILES_MATCHING PATTERN "*.h")
install(DIRECTORY models/ DESTINATION "${CMAKE_INSTALL_DATADIR}/sluice/models" OPTIONAL)
install(DIRECTORY python/sluice DESTINATION "${CMAKE_INSTALL_DATADIR}/sluice/python"
    FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(FILES docs/c-api.md docs/python.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/api DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}"
    FILES_MATCHING PATTERN "*.c" PATTERN "*.py")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
foreach(module IN ITEMS mpi cuda)
    if(TARGET sluice_${module})
        install(TARGETS sluice_${module} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/sluice")
    endif()
endforeach()

if(SL_BUILD_SHARED)
    install(TARGETS sluice EXPORT sluiceTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION "${package_dir}")
    configure_package_config_file(cmake/sluiceConfig.cmake.in
        "${PROJECT_BINARY_DIR}/gen/sluiceConfig.cmake" INSTALL_DESTINATION "${package_dir}")
    # Before 1.0 a minor version may break callers.
    write_basic_package_version_file("${PROJECT_BINARY_DIR}/gen/sluiceConfigVersion.cmake"
        COMPATIBILITY SameMinorVersion)
    install(FILES "${PROJECT_BINARY_DIR}/gen/sluiceConfig.cmake"
        "${PROJECT_BINARY_DIR}/gen/sluiceConfigVersion.cmake" DESTINATION "${package_dir}")

    # The .pc file computes its prefix from its own path: the tree can be moved.
    file(RELATIVE_PATH SL_PC_PREFIX "/x/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/x")
    configure_file(cmake/sluice.pc.in "${PROJECT_BINARY_DIR}/gen/sluice.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/gen/sluice.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
