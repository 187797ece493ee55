# Tests by file name: a new file is a new test.
#
#   tests/unit/<component>/test_x.c  unit.<component>.x  cmocka
#   tests/table/test_x.c         table.x           cmocka, loops over registries
#   tests/table/*.c              (other names) linked into every table test
#   tests/fuzz/fuzz_x.c          fuzz.x            libFuzzer (preset fuzz); elsewhere a replay of the corpus
#   tests/e2e/x.sh               e2e.x             exit 77 = skipped
#   tests/golden/x.sh            golden.x          exit 77 = skipped
#   tests/tools/x.sh             tools.x           the checkers themselves (release only)
#   examples/x.c                 example.x         compiled against include/ only
#   tests/preload/fault.c        build/release/tests/libsl_fault.so, for scripts
#   tests/support/*.c            linked into every cmocka test; include as "support/x.h"
#   bench/x.c                    build/release/bench/x, not a test
#
# _mt at the end of a name: label `thread`; the tsan preset builds and runs only these. _serial: runs
# alone. _release: not under sanitizers. Outside release, names end in @<preset>, so that one ctest run
# can contain all presets. The environment of a test has SLUICE, SRC_DIR, BUILD_DIR, SL_PRESET and
# SL_TEST_FULL (1: full counts; else about 1/50).
set(tests "${PROJECT_SOURCE_DIR}/tests")
set(SL_TEST_SUFFIX "")
if(NOT SL_PRESET STREQUAL "release")
    set(SL_TEST_SUFFIX "@${SL_PRESET}")
endif()
set(SL_TEST_ENV
    "SLUICE=${PROJECT_BINARY_DIR}/sluice" "SRC_DIR=${PROJECT_SOURCE_DIR}"
    "BUILD_DIR=${PROJECT_BINARY_DIR}" "SL_PRESET=${SL_PRESET}"
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")

# ThreadSanitizer of gcc 12 does not start if the kernel randomizes more than 28 bits of an address.
set(SL_TEST_WRAPPER "")
if(SL_SANITIZE STREQUAL "thread")
    execute_process(COMMAND setarch -R true RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    if(result EQUAL 0)
        set(SL_TEST_WRAPPER setarch -R)
    endif()
endif()

function(sl_register name label stem)
    set(labels ${label})
    if(stem MATCHES "_mt$")
        list(APPEND labels thread)
    endif()
    set_tests_properties("${name}" PROPERTIES LABELS "${labels}" ENVIRONMENT "${SL_TEST_ENV}"
        SKIP_RETURN_CODE 77)
    if(stem MATCHES "_serial$")
        set_tests_properties("${name}" PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# The tsan preset runs tests with threads only.
function(sl_wanted stem out)
    set(${out} TRUE PARENT_SCOPE)
    if(SL_SANITIZE STREQUAL "thread" AND NOT stem MATCHES "_mt$")
        set(${out} FALSE PARENT_SCOPE)
    endif()
    if(SL_SANITIZE STREQUAL "fuzzer" OR (stem MATCHES "_release$" AND NOT SL_SANITIZE STREQUAL ""))
        set(${out} FALSE PARENT_SCOPE)
    endif()
endfunction()

function(sl_c_test file name label)
    get_filename_component(stem "${file}" NAME_WE)
    sl_wanted(${stem} wanted)
    if(NOT wanted)
        return()
    endif()
    string(REPLACE "." "_" target "t_${name}")
    add_executable(${target} "${file}")
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" OUTPUT_NAME "${name}")
    target_include_directories(${target} PRIVATE "${tests}")
    target_compile_definitions(${target} PRIVATE ${SL_MODELS_DEFINITION}
        "SL_TEST_SRC_DIR=\"${PROJECT_SOURCE_DIR}\"")
    target_link_libraries(${target} PRIVATE sluice_flags)
    if(TARGET sl_test_support)
        target_link_libraries(${target} PRIVATE sl_test_support)
        # A binary whose tests all skip exits with 77 (tests/support/skipped.c).
        target_link_options(${target} PRIVATE -Wl,--wrap=_skip,--wrap=_cmocka_run_group_tests)
    endif()
    if(TARGET sluice_cli_tested)
        target_link_libraries(${target} PRIVATE sluice_cli_tested)
    endif()
    target_link_libraries(${target} PRIVATE sluice_internal sl::cmocka)
    add_test(NAME "${name}${SL_TEST_SUFFIX}" COMMAND ${SL_TEST_WRAPPER} $<TARGET_FILE:${target}>)
    sl_register("${name}${SL_TEST_SUFFIX}" "${label}" ${stem})
endfunction()

# ---- cmocka ----
if(SL_HAVE_LIB)
    sl_find_c(cmocka cmocka.h cmocka)
    if(NOT SL_cmocka_FOUND)
        message(FATAL_ERROR "cmocka not found: ./dev setup installs it (Debian package libcmocka-dev), "
            "or configure with -DSL_TESTS=OFF")
    endif()
    file(GLOB support CONFIGURE_DEPENDS "${tests}/support/*.c")
    if(support AND NOT SL_SANITIZE STREQUAL "fuzzer")
        add_library(sl_test_support STATIC ${support})
        target_compile_definitions(sl_test_support PRIVATE ${SL_MODELS_DEFINITION})
        target_include_directories(sl_test_support PRIVATE "${tests}")
        target_link_libraries(sl_test_support PRIVATE sluice_flags PUBLIC sluice_internal sl::cmocka)
    endif()
    file(GLOB files CONFIGURE_DEPENDS "${tests}/unit/*/test_*.c")
    foreach(file IN LISTS files)
        string(REGEX MATCH "/([^/]+)/test_([^/]+)\\.c$" _ "${file}")
        sl_c_test("${file}" "unit.${CMAKE_MATCH_1}.${CMAKE_MATCH_2}" "unit;${CMAKE_MATCH_1}")
    endforeach()
    file(GLOB files CONFIGURE_DEPENDS "${tests}/table/test_*.c")
    file(GLOB tables CONFIGURE_DEPENDS "${tests}/table/*.c")
    list(REMOVE_ITEM tables ${files} "")
    if(tables AND NOT SL_SANITIZE STREQUAL "fuzzer")
        add_library(sl_test_tables STATIC ${tables})
        target_include_directories(sl_test_tables PUBLIC "${tests}/table")
        target_link_libraries(sl_test_tables PRIVATE sluice_flags PUBLIC sluice_internal)
    endif()
    foreach(file IN LISTS files)
        string(REGEX MATCH "/test_([^/]+)\\.c$" _ "${file}")
        set(x "${CMAKE_MATCH_1}")
        sl_c_test("${file}" "table.${CMAKE_MATCH_1}" table)
        if(TARGET sl_test_tables AND TARGET t_table_${x})
            target_link_libraries(t_table_${x} PRIVATE sl_test_tables)
        endif()
    endforeach()
endif()

# ---- fuzz targets ----
file(GLOB files CONFIGURE_DEPENDS "${tests}/fuzz/fuzz_*.c")
if(SL_HAVE_LIB AND NOT SL_SANITIZE STREQUAL "thread")
    foreach(file IN LISTS files)
        string(REGEX MATCH "/fuzz_([^/]+)\\.c$" _ "${file}")
        set(x "${CMAKE_MATCH_1}")
        add_executable(fuzz_${x} "${file}" "${tests}/fuzz/meter.c")
        set_target_properties(fuzz_${x} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
        target_include_directories(fuzz_${x} PRIVATE "${tests}")
        target_link_libraries(fuzz_${x} PRIVATE sluice_flags sluice_internal)
        if(SL_SANITIZE STREQUAL "fuzzer")
            target_link_options(fuzz_${x} PRIVATE -fsanitize=fuzzer)
            add_test(NAME "fuzz.${x}${SL_TEST_SUFFIX}"
                COMMAND "${PROJECT_SOURCE_DIR}/tools/fuzz_one.sh" ${x} $<TARGET_FILE:fuzz_${x}>)
        else()
            target_sources(fuzz_${x} PRIVATE "${tests}/fuzz/replay_main.c")
            add_test(NAME "fuzz.${x}${SL_TEST_SUFFIX}"
                COMMAND fuzz_${x} "${tests}/fuzz/corpus/${x}")
        endif()
        sl_register("fuzz.${x}${SL_TEST_SUFFIX}" fuzz ${x})
    endforeach()
endif()

# ---- faults by LD_PRELOAD, for scripts ----
if(SL_SANITIZE STREQUAL "")
    add_library(sl_fault MODULE "${tests}/preload/fault.c")
    set_target_properties(sl_fault PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    target_link_libraries(sl_fault PRIVATE sluice_flags)
    # It replaces functions of the C library; hardened headers declare these differently.
    target_compile_options(sl_fault PRIVATE -U_FORTIFY_SOURCE -fno-builtin)
endif()

# ---- scripts ----
function(sl_script_tests folder)
    file(GLOB files CONFIGURE_DEPENDS "${tests}/${folder}/*.sh")
    foreach(file IN LISTS files)
        get_filename_component(stem "${file}" NAME_WE)
        sl_wanted(${stem} wanted)
        if(wanted)
            add_test(NAME "${folder}.${stem}${SL_TEST_SUFFIX}" COMMAND ${SL_TEST_WRAPPER} bash "${file}")
            sl_register("${folder}.${stem}${SL_TEST_SUFFIX}" ${folder} ${stem})
        endif()
    endforeach()
endfunction()
if(SL_HAVE_BINARY)
    sl_script_tests(e2e)
    sl_script_tests(golden)
endif()
if(SL_SANITIZE STREQUAL "")
    sl_script_tests(tools)
endif()

# ---- examples and benches ----
if(SL_HAVE_LIB)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
    foreach(file IN LISTS files)
        get_filename_component(x "${file}" NAME_WE)
        sl_wanted(${x} wanted)
        if(wanted)
            add_executable(example_${x} "${file}")
            set_target_properties(example_${x} PROPERTIES OUTPUT_NAME ${x}
                RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
            target_include_directories(example_${x} PRIVATE "${PROJECT_SOURCE_DIR}/include")
            if(SL_BUILD_SHARED)
                target_link_libraries(example_${x} PRIVATE sluice_flags sluice)
            else()
                target_link_libraries(example_${x} PRIVATE sluice_flags sluice_internal)
            endif()
            add_test(NAME "example.${x}${SL_TEST_SUFFIX}" COMMAND example_${x})
            sl_register("example.${x}${SL_TEST_SUFFIX}" example ${x})
        endif()
    endforeach()
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c")
    if(SL_SANITIZE STREQUAL "")
        foreach(file IN LISTS files)
            get_filename_component(x "${file}" NAME_WE)
            add_executable(bench_${x} "${file}")
            set_target_properties(bench_${x} PROPERTIES OUTPUT_NAME ${x}
                RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
            target_link_libraries(bench_${x} PRIVATE sluice_flags sluice_internal)
        endforeach()
    endif()
endif()
