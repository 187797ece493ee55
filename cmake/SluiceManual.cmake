# Manual pages, made at build time: commands from the program's own tables, formats from docs/.
# One document may describe several formats; the other names are links to the first.
set(SL_FORMAT_PAGES "formats|model" "formats-sched|plan,sched" "formats-machine|machine,cost"
    "formats-ckpt|ckpt" "formats-data|data" "formats-timeline|trace,csv" "formats-export|export-formats"
    "formats-study|study" "formats-json|json")
set(SL_MAN_DIR "${PROJECT_BINARY_DIR}/man")
file(MAKE_DIRECTORY "${SL_MAN_DIR}/man1" "${SL_MAN_DIR}/man5")
find_program(SL_AWK NAMES awk)
mark_as_advanced(SL_AWK)

set(pages "${SL_MAN_DIR}/man1/sluice.1")
add_custom_command(OUTPUT "${SL_MAN_DIR}/man1/sluice.1"
    COMMAND sluice_bin man -o "${SL_MAN_DIR}/man1" DEPENDS sluice_bin COMMENT "manual pages of commands")
foreach(row IN LISTS SL_FORMAT_PAGES)
    string(REGEX MATCH "^([^|]+)\\|([^,]+),?(.*)$" _ "${row}")
    set(document "${PROJECT_SOURCE_DIR}/docs/${CMAKE_MATCH_1}.md")
    set(name "sluice-${CMAKE_MATCH_2}")
    foreach(other IN LISTS CMAKE_MATCH_3)
        file(WRITE "${SL_MAN_DIR}/man5/sluice-${other}.5" ".so man5/${name}.5\n")
    endforeach()
    set(page "${SL_MAN_DIR}/man5/${name}.5")
    add_custom_command(OUTPUT "${page}"
        COMMAND "${SL_AWK}" -v name=${name} -v version=${PROJECT_VERSION}
            -f "${PROJECT_SOURCE_DIR}/tools/md2man.awk" "${document}" > "${page}"
        DEPENDS "${document}" "${PROJECT_SOURCE_DIR}/tools/md2man.awk" VERBATIM
        COMMENT "manual page ${name}(5)")
    list(APPEND pages "${page}")
endforeach()
add_custom_target(sluice_manual ALL DEPENDS ${pages})

install(DIRECTORY "${SL_MAN_DIR}/" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES src/cli/completion.bash RENAME sluice
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES src/cli/completion.zsh RENAME _sluice
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES src/cli/completion.fish RENAME sluice.fish
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
