# The rooms of src/ROOMS that exist, as lists of sources:
#   SL_LIB_SOURCES   every room but cli             -> libsluice
#   SL_CLI_SOURCES   cli without main.c             -> the binary and its tests
#   SL_CLI_MAIN      cli/main.c
#   SL_MPI_SOURCES   comm/mpi*.c                    -> libsluice_mpi.so, loaded when present
#   SL_CUDA_SOURCES  device/cuda/*                     -> libsluice_cuda.so, loaded when present

# The instruction set of a kernel file is in its name; the dispatcher decides at run time.
set(SL_ISA_avx2 -mavx2 -mfma)
set(SL_ISA_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma)
set(SL_ISA_amx ${SL_ISA_avx512} -mamx-tile -mamx-bf16 -mavx512bf16)

# gcc 12 aligns the frames of detect_stack_use_after_return to 32 bytes only (PR 110027): vectors of
# 64 bytes in them would fault.
set(SL_ISA_sanitize "")
if(SL_SANITIZE STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(SL_ISA_sanitize --param=asan-use-after-return=0)
endif()

# Drops the files whose name asks for a feature that is not there (see SluiceDeps).
function(sl_choose_files out)
    set(kept "")
    foreach(file IN LISTS ARGN)
        get_filename_component(stem "${file}" NAME_WE)
        set(keep TRUE)
        foreach(feature IN LISTS SL_KNOWN_FEATURES)
            if(stem MATCHES "_${feature}$" AND NOT feature IN_LIST SL_FEATURES)
                set(keep FALSE)
            elseif(stem MATCHES "_no${feature}$" AND feature IN_LIST SL_FEATURES)
                set(keep FALSE)
            endif()
        endforeach()
        if(stem MATCHES "_(avx2|avx512|amx)$" AND NOT "x86" IN_LIST SL_FEATURES)
            set(keep FALSE)
        endif()
        if(keep)
            list(APPEND kept "${file}")
        endif()
    endforeach()
    set(${out} "${kept}" PARENT_SCOPE)
endfunction()

# Files of a room that are part of the program (src/report/page.js -> sl_asset_page_js).
function(sl_embed out)
    set(made "")
    foreach(file IN LISTS ARGN)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
        get_filename_component(name "${file}" NAME)
        string(MAKE_C_IDENTIFIER "sl_asset_${name}" symbol)
        file(READ "${file}" bytes HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
        string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
        set(target "${PROJECT_BINARY_DIR}/assets/${name}.c")
        file(CONFIGURE OUTPUT "${target}" @ONLY CONTENT
"#include <stddef.h>
extern const unsigned char @symbol@[];
extern const size_t @symbol@_size;
const unsigned char @symbol@[] = {
@bytes@
};
const size_t @symbol@_size = sizeof @symbol@;
")
        list(APPEND made "${target}")
    endforeach()
    set(${out} "${made}" PARENT_SCOPE)
endfunction()

macro(sluice_rooms)
    set(src "${PROJECT_SOURCE_DIR}/src")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${src}/ROOMS")
    file(STRINGS "${src}/ROOMS" lines REGEX "^[a-z]")
    set(SL_LIB_SOURCES "")
    set(SL_CLI_SOURCES "")
    set(SL_CLI_MAIN "")
    foreach(line IN LISTS lines)
        string(REGEX MATCH "^[a-z0-9_]+" room "${line}")
        file(GLOB files CONFIGURE_DEPENDS "${src}/${room}/*.c" "${src}/${room}/*/*.c")
        list(SORT files)
        if(room STREQUAL "cli")
            set(SL_CLI_SOURCES ${files})
        else()
            list(APPEND SL_LIB_SOURCES ${files})
        endif()
    endforeach()
    if(EXISTS "${src}/cli/main.c")
        set(SL_CLI_MAIN "${src}/cli/main.c")
        list(REMOVE_ITEM SL_CLI_SOURCES "${SL_CLI_MAIN}")
    endif()

    set(SL_MPI_SOURCES ${SL_LIB_SOURCES})
    list(FILTER SL_MPI_SOURCES INCLUDE REGEX "/src/comm/mpi[^/]*\\.c$")
    list(FILTER SL_LIB_SOURCES EXCLUDE REGEX "/src/comm/mpi[^/]*\\.c$")
    set(SL_CUDA_SOURCES ${SL_LIB_SOURCES})
    list(FILTER SL_CUDA_SOURCES INCLUDE REGEX "/src/device/cuda/[^/]*\\.c$")
    list(FILTER SL_LIB_SOURCES EXCLUDE REGEX "/src/device/cuda/[^/]*\\.c$")
    file(GLOB files CONFIGURE_DEPENDS "${src}/device/cuda/*.cu")
    list(APPEND SL_CUDA_SOURCES ${files})

    set(files "")
    foreach(ending IN ITEMS js css txt bash fish zsh)
        file(GLOB found CONFIGURE_DEPENDS "${src}/*/*.${ending}")
        list(APPEND files ${found})
    endforeach()
    sl_embed(files ${files})
    list(APPEND SL_LIB_SOURCES ${files})

    sl_choose_files(SL_LIB_SOURCES ${SL_LIB_SOURCES})
    sl_choose_files(SL_CLI_SOURCES ${SL_CLI_SOURCES})

    # With -O1 (dev, tsan) gcc contracts nothing unless it is told to; all builds have the same bits.
    set(contract -ffp-contract=fast)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
        list(APPEND contract -fexpensive-optimizations)
    endif()
    foreach(isa IN ITEMS avx2 avx512 amx)
        set(files ${SL_LIB_SOURCES})
        list(FILTER files INCLUDE REGEX "/src/device/cpu/[^/]*_${isa}\\.c$")
        if(files)
            set_source_files_properties(${files} PROPERTIES
                COMPILE_OPTIONS "${SL_ISA_${isa}};${contract};${SL_ISA_sanitize}")
        endif()
        # The bits of an optimizer step are defined (optim/rules.h): nothing is contracted.
        list(FILTER files INCLUDE REGEX "/optim_[^/]*\\.c$")
        if(files)
            set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${SL_ISA_${isa}}")
        endif()
    endforeach()
endmacro()
