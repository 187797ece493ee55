#compdef sluice
# zsh completion of sluice. The program knows what may come next; this asks it.
_sluice() {
    local line files=0
    local -a found
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done < <("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#found} )) && _describe sluice found
    (( files )) && _files
}
if [[ $funcstack[1] == _sluice ]]; then
    _sluice "$@"
else
    compdef _sluice sluice
fi
