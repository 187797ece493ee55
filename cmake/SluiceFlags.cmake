# Compiler flags of every C file: the interface target sluice_flags.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1" CACHE STRING "" FORCE)
set(CMAKE_C_FLAGS_DEBUG "-O1 -g" CACHE STRING "" FORCE)

find_program(SL_CCACHE ccache)
mark_as_advanced(SL_CCACHE)
if(SL_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER "${SL_CCACHE}")
endif()

add_library(sluice_flags INTERFACE)
file(RELATIVE_PATH SL_UP "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}/")
target_compile_options(sluice_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wmissing-prototypes -Wstrict-prototypes
    -Wwrite-strings -Wundef
    # gcc does not know across files that sl_fail returns an error. The sanitized builds fill locals
    # with a pattern instead, so that a read of an unwritten one fails a test.
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    # Determinism: no contraction outside the kernels, never -ffast-math. The next two do not change
    # values: no code reads errno of math functions or the exception flags.
    -ffp-contract=off -fno-math-errno -fno-trapping-math
    -fno-semantic-interposition
    # Paths in messages and debug information are relative to the source tree. ccache passes paths in the
    # second form; with it, checkouts share one cache.
    "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=" "-fmacro-prefix-map=${SL_UP}="
    "-fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.")
if(SL_WERROR)
    target_compile_options(sluice_flags INTERFACE -Werror)
endif()
# Empty: a #define _GNU_SOURCE in a file is then no redefinition.
target_compile_definitions(sluice_flags INTERFACE _GNU_SOURCE=)
target_link_options(sluice_flags INTERFACE -Wl,--as-needed)

set(SL_UBSAN "undefined,float-cast-overflow")
if(SL_SANITIZE STREQUAL "")
    target_compile_definitions(sluice_flags INTERFACE
        $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
elseif(SL_SANITIZE STREQUAL "address")
    set(san -fsanitize=address,${SL_UBSAN} -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(SL_SANITIZE STREQUAL "thread")
    set(san -fsanitize=thread -fno-omit-frame-pointer)
elseif(SL_SANITIZE STREQUAL "fuzzer")
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "SL_SANITIZE=fuzzer needs clang (libFuzzer)")
    endif()
    set(san -fsanitize=fuzzer-no-link,address,${SL_UBSAN} -fno-sanitize-recover=all
        -fno-omit-frame-pointer)
elseif(SL_SANITIZE STREQUAL "coverage")
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "SL_SANITIZE=coverage needs clang")
    endif()
    set(san -fprofile-instr-generate -fcoverage-mapping)
else()
    message(FATAL_ERROR "SL_SANITIZE=${SL_SANITIZE}: must be empty, address, thread, fuzzer or coverage")
endif()
if(san)
    if(NOT SL_SANITIZE STREQUAL "coverage")
        list(APPEND san -ftrivial-auto-var-init=pattern)
    endif()
    target_compile_options(sluice_flags INTERFACE ${san})
    target_link_options(sluice_flags INTERFACE ${san})
endif()
