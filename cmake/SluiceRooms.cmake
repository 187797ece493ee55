# The rooms of src/ROOMS that exist, as lists of sources:
#   SL_LIB_SOURCES   every room but cli             -> libsluice
#   SL_CLI_SOURCES   cli without main.c             -> the binary and its tests
#   SL_CLI_MAIN      cli/main.c
#   SL_MPI_SOURCES   comm/mpi*.c                    -> libsluice_mpi.so, loaded when present
#   SL_CUDA_SOURCES  device/cuda/*                     -> libsluice_cuda.so, loaded when present

# Instruction sets of the CPU kernels (device/cpu/isa.h): flags, bytes of a vector, bf16 parts of AMX.
set(SL_ISA_avx2 -mavx2 -mfma)
set(SL_ISA_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma)
set(SL_ISA_amx ${SL_ISA_avx512} -mamx-tile -mamx-bf16 -mavx512bf16)
set(SL_ISA_amx_bf16 ${SL_ISA_amx})
set(SL_ISA_BYTES_any 16)
set(SL_ISA_BYTES_avx2 32)
set(SL_ISA_BYTES_avx512 64)
set(SL_ISA_BYTES_amx 64)
set(SL_ISA_BYTES_amx_bf16 64)
set(SL_ISA_PARTS_amx 3)
set(SL_ISA_PARTS_amx_bf16 1)

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
endmacro()

# Compiles every .c file of src/device/cpu/DIRECTORY for one instruction set: the object library
# sluice_DIRECTORY_ISA. Files *_amx.c are for AMX only. Further arguments: compile options.
function(sl_kernel_library directory isa)
    set(parts 0)
    if(SL_ISA_PARTS_${isa})
        set(parts ${SL_ISA_PARTS_${isa}})
    endif()
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/device/cpu/${directory}/*.c")
    list(SORT files)
    if(parts EQUAL 0)
        list(FILTER files EXCLUDE REGEX "_amx\\.c$")
    endif()
    set(target sluice_${directory}_${isa})
    # Options of linked libraries come last and in order: these override sluice_flags.
    add_library(${target}_flags INTERFACE)
    target_compile_options(${target}_flags INTERFACE ${SL_ISA_${isa}} ${ARGN})
    target_compile_definitions(${target}_flags INTERFACE
        SL_ISA=${isa} SL_ISA_VEC_BYTES=${SL_ISA_BYTES_${isa}} SL_ISA_AMX_PARTS=${parts})
    add_library(${target} OBJECT ${files})
    target_include_directories(${target} PRIVATE ${SL_INCLUDES})
    target_link_libraries(${target} PRIVATE sluice_flags sluice_deps ${target}_flags)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
endfunction()

# All kernels; `out`: their objects. The dispatcher chooses the instruction set at run time.
function(sl_kernel_objects out)
    # With -O1 (dev, tsan) gcc contracts only with -fexpensive-optimizations; all builds give the same
    # bits.
    set(contract -ffp-contract=fast)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
        list(APPEND contract -fexpensive-optimizations)
    endif()
    set(vectors avx2 avx512)
    set(products avx2 avx512 amx amx_bf16)
    if(NOT "x86" IN_LIST SL_FEATURES)
        set(vectors "")
        set(products "")
    endif()
    sl_kernel_library(product any)
    sl_kernel_library(pointwise any)
    sl_kernel_library(optim any)
    set(objects $<TARGET_OBJECTS:sluice_product_any> $<TARGET_OBJECTS:sluice_pointwise_any>
        $<TARGET_OBJECTS:sluice_optim_any>)
    foreach(isa IN LISTS products)
        sl_kernel_library(product ${isa} ${contract} ${SL_ISA_sanitize})
        list(APPEND objects $<TARGET_OBJECTS:sluice_product_${isa}>)
    endforeach()
    foreach(isa IN LISTS vectors)
        sl_kernel_library(pointwise ${isa} ${contract} ${SL_ISA_sanitize})
        # The bits of an optimizer step are defined (optim/rules.h): no contraction.
        sl_kernel_library(optim ${isa})
        list(APPEND objects $<TARGET_OBJECTS:sluice_pointwise_${isa}>
            $<TARGET_OBJECTS:sluice_optim_${isa}>)
    endforeach()
    set(${out} ${objects} PARENT_SCOPE)
endfunction()
