# bash completion of sluice. The program knows what may come next; this asks it.
# shellcheck shell=bash
_sluice() {
    local program=${COMP_WORDS[0]} word what
    COMPREPLY=()
    # shellcheck disable=SC2034 # read by readline
    while IFS=$'\t' read -r word what; do
        if [ "$word" = :files ]; then
            compopt -o default 2>/dev/null
        else
            COMPREPLY+=("$word")
        fi
    done < <("$program" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _sluice sluice
