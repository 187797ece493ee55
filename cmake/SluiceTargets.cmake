# Targets: sluice_objects (every component but cli, compiled once) -> libsluice.so, the archive for the
# tests, and the binary, which contains the objects so that it can be copied anywhere.
set(SL_INCLUDES "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
set(SL_MAP "${PROJECT_SOURCE_DIR}/src/libsluice.map")
set(SL_HAVE_LIB FALSE)
set(SL_HAVE_BINARY FALSE)
set(SL_BUILD_SHARED FALSE)
# The models of the source tree, for a binary that is not installed.
set(SL_MODELS_DEFINITION "SL_MODELS_SRC_DIR=\"${PROJECT_SOURCE_DIR}/models\"")

if(SL_LIB_SOURCES)
    set(SL_HAVE_LIB TRUE)
    # project(VERSION) defines the version; sl_version() returns it.
    set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/base/version.c" APPEND PROPERTY
        COMPILE_DEFINITIONS "SL_VERSION_STRING=\"${PROJECT_VERSION}\"")
    # "comm/module_build.h": a hash that the program and libsluice_mpi.so must share.
    set(SL_MODULE_BUILD "${PROJECT_BINARY_DIR}/gen/comm/module_build.h")
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*/*.h")
    add_custom_command(OUTPUT "${SL_MODULE_BUILD}.stamp" BYPRODUCTS "${SL_MODULE_BUILD}"
        COMMAND "${CMAKE_COMMAND}" -D "SRC=${PROJECT_SOURCE_DIR}/src" -D "OUT=${SL_MODULE_BUILD}"
            -P "${PROJECT_SOURCE_DIR}/cmake/ModuleBuild.cmake"
        COMMAND "${CMAKE_COMMAND}" -E touch "${SL_MODULE_BUILD}.stamp"
        DEPENDS ${headers} "${PROJECT_SOURCE_DIR}/cmake/ModuleBuild.cmake"
        COMMENT "identity of modules" VERBATIM)
    add_custom_target(sluice_module_build DEPENDS "${SL_MODULE_BUILD}.stamp")
    add_library(sluice_objects OBJECT ${SL_LIB_SOURCES})
    add_dependencies(sluice_objects sluice_module_build)
    target_include_directories(sluice_objects PUBLIC ${SL_INCLUDES}
        PRIVATE "${PROJECT_BINARY_DIR}/gen")
    target_link_libraries(sluice_objects PRIVATE sluice_flags sluice_deps)
    # include/ marks with SL_API what the library exports (tests/golden/symbols.txt).
    set_target_properties(sluice_objects PROPERTIES C_VISIBILITY_PRESET hidden)

    # onnx.pb-c.[ch] from src/proto/onnx.proto: generated code, compiled without our warnings.
    set(SL_ONNX_OBJECTS "")
    if("onnx" IN_LIST SL_FEATURES)
        set(gen "${PROJECT_BINARY_DIR}/gen/proto")
        file(MAKE_DIRECTORY "${gen}")
        add_custom_command(OUTPUT "${gen}/onnx.pb-c.c" "${gen}/onnx.pb-c.h"
            COMMAND "${SL_PROTOC_C}" "--proto_path=${PROJECT_SOURCE_DIR}/src/proto" "--c_out=${gen}"
                onnx.proto
            DEPENDS "${PROJECT_SOURCE_DIR}/src/proto/onnx.proto" COMMENT "ONNX reader" VERBATIM)
        add_custom_target(sluice_onnx_gen DEPENDS "${gen}/onnx.pb-c.h")
        add_library(sluice_onnx OBJECT "${gen}/onnx.pb-c.c")
        target_include_directories(sluice_onnx PRIVATE "${gen}" ${SL_protobufc_INCLUDE})
        target_compile_options(sluice_onnx PRIVATE -w)
        set_target_properties(sluice_onnx PROPERTIES C_VISIBILITY_PRESET hidden
            POSITION_INDEPENDENT_CODE ON)
        add_dependencies(sluice_objects sluice_onnx_gen)
        set(SL_ONNX_OBJECTS $<TARGET_OBJECTS:sluice_onnx>)
    endif()

    # The CPU kernels, once per instruction set.
    sl_kernel_objects(SL_KERNEL_OBJECTS)
    set(SL_LIB_OBJECTS $<TARGET_OBJECTS:sluice_objects> ${SL_ONNX_OBJECTS} ${SL_KERNEL_OBJECTS})

    add_library(sluice_internal STATIC ${SL_LIB_OBJECTS})
    target_include_directories(sluice_internal PUBLIC ${SL_INCLUDES})
    target_link_libraries(sluice_internal PUBLIC sluice_deps_static PRIVATE sluice_flags)

    if(SL_SANITIZE STREQUAL "")
        set(SL_BUILD_SHARED TRUE)
        add_library(sluice SHARED ${SL_LIB_OBJECTS})
        target_include_directories(sluice PUBLIC
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        target_link_libraries(sluice PRIVATE $<BUILD_INTERFACE:sluice_flags>
            $<BUILD_INTERFACE:sluice_deps>)
        target_link_options(sluice PRIVATE "-Wl,--version-script=${SL_MAP}" -Wl,--no-undefined)
        set_target_properties(sluice PROPERTIES VERSION ${PROJECT_VERSION}
            SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS "${SL_MAP}")
        add_library(sluice::sluice ALIAS sluice)
    endif()
endif()

if(SL_HAVE_LIB AND SL_CLI_MAIN)
    set(SL_HAVE_BINARY TRUE)
    add_library(sluice_cli OBJECT ${SL_CLI_SOURCES} ${SL_CLI_MAIN})
    target_include_directories(sluice_cli PRIVATE ${SL_INCLUDES})
    target_compile_definitions(sluice_cli PRIVATE ${SL_MODELS_DEFINITION})
    target_link_libraries(sluice_cli PRIVATE sluice_flags sluice_deps)

    # The file is called sluice; the target sluice is the library.
    add_executable(sluice_bin $<TARGET_OBJECTS:sluice_cli> ${SL_LIB_OBJECTS})
    set_target_properties(sluice_bin PROPERTIES OUTPUT_NAME sluice)
    target_link_libraries(sluice_bin PRIVATE sluice_flags sluice_deps_static)
    # A relocated installation may contain shared libraries (tools/package.sh).
    foreach(target IN ITEMS sluice_bin sluice)
        if(TARGET ${target})
            set_target_properties(${target} PROPERTIES INSTALL_RPATH
                "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/sluice;$ORIGIN/sluice")
            target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
        endif()
    endforeach()
    if(SL_CLI_SOURCES)
        # For tests: the commands without main.
        add_library(sluice_cli_tested STATIC $<FILTER:$<TARGET_OBJECTS:sluice_cli>,EXCLUDE,cli/main\\.c>)
        set_target_properties(sluice_cli_tested PROPERTIES LINKER_LANGUAGE C)
    endif()
endif()

# ---- optional modules ----
set(SL_HAVE_MPI FALSE)
if(SL_WITH_MPI AND SL_MPI_SOURCES AND SL_HAVE_LIB)
    find_package(MPI QUIET COMPONENTS C)
    if(MPI_C_FOUND)
        set(SL_HAVE_MPI TRUE)
        add_library(sluice_mpi MODULE ${SL_MPI_SOURCES})
        add_dependencies(sluice_mpi sluice_module_build)
        target_include_directories(sluice_mpi PRIVATE ${SL_INCLUDES} "${PROJECT_BINARY_DIR}/gen")
        target_link_libraries(sluice_mpi PRIVATE sluice_flags MPI::MPI_C)
        # The program's functions come in a table (comm/mpi_host.h); nothing is left undefined.
        set_target_properties(sluice_mpi PROPERTIES C_VISIBILITY_PRESET hidden)
        target_compile_definitions(sluice_mpi PRIVATE SL_API=)
        if(SL_SANITIZE STREQUAL "")
            target_link_options(sluice_mpi PRIVATE -Wl,-z,defs)
        endif()
    endif()
    message(STATUS "MPI module: ${SL_HAVE_MPI}")
endif()

if("cuda" IN_LIST SL_FEATURES AND SL_HAVE_LIB)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES 90a) # 90a: wgmma
    endif()
    if(SL_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
        set(CMAKE_CUDA_COMPILER_LAUNCHER "${SL_CCACHE}")
    endif()
    enable_language(CUDA)
    set(SL_CUDA_HOST_SOURCES ${SL_CUDA_SOURCES})
    list(FILTER SL_CUDA_HOST_SOURCES INCLUDE REGEX "\\.c$")
    list(FILTER SL_CUDA_SOURCES INCLUDE REGEX "\\.cu$")
    # It contains copies of the files it uses; errors go to the program (device/cuda/host.c).
    add_library(sluice_cuda_host OBJECT ${SL_CUDA_HOST_SOURCES} src/base/arena.c src/optim/norm.c
        src/pass/holes.c)
    target_include_directories(sluice_cuda_host PRIVATE ${SL_INCLUDES})
    target_include_directories(sluice_cuda_host SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(sluice_cuda_host PRIVATE sluice_flags)
    target_compile_options(sluice_cuda_host PRIVATE -fvisibility=hidden)
    target_compile_definitions(sluice_cuda_host PRIVATE SL_API=)
    add_library(sluice_cuda MODULE ${SL_CUDA_SOURCES} $<TARGET_OBJECTS:sluice_cuda_host>)
    target_include_directories(sluice_cuda PRIVATE ${SL_INCLUDES} "${SL_cudnn_INCLUDE}")
    target_compile_definitions(sluice_cuda PRIVATE SL_API=)
    target_compile_options(sluice_cuda PRIVATE -Xcompiler=-Wall,-fvisibility=hidden)
    set_target_properties(sluice_cuda PROPERTIES CUDA_STANDARD 20 CUDA_RUNTIME_LIBRARY Static)
    # The bits of an optimizer step are defined (optim/rules.h): nothing is contracted.
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/device/cuda/optim.cu" PROPERTIES
        COMPILE_OPTIONS "-fmad=false")
    target_link_libraries(sluice_cuda PRIVATE CUDA::cudart_static CUDA::cublasLt "${SL_cudnn_LIBRARY}")
    target_link_options(sluice_cuda PRIVATE -Wl,--exclude-libs,ALL,-z,defs) # no symbols of the program
    message(STATUS "CUDA module: TRUE")
endif()
