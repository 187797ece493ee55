#!/usr/bin/env bash
# Completions as the shells give them: bash always, fish and zsh where they are.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home"
ln -s "$SLUICE" "$work/bin/sluice"
export PATH=$work/bin:$PATH HOME=$work/home
count=0

# What bash would offer for a line; files are asked for by ':files'.
in_bash() { # LINE
    bash --norc -c '
        source <(sluice completion bash)
        compopt() { echo :files; }
        read -ra COMP_WORDS <<<"$1"
        [[ $1 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _sluice
        [ ${#COMPREPLY[@]} = 0 ] || printf "%s\n" "${COMPREPLY[@]}"' - "$1" | sort | tr '\n' ' '
}
expect() { # LINE WORDS...
    local got want
    got=$(in_bash "$1")
    want=
    [ $# = 1 ] || want=$(printf '%s\n' "${@:2}" | sort | tr '\n' ' ')
    [ "$got" = "$want" ] || fail "'$1' gives '$got', expected '$want'"
    count=$((count + 1))
}
has() { # LINE WORD...: among others
    local word got
    got=" $(in_bash "$1")"
    for word in "${@:2}"; do
        [[ $got == *" $word "* ]] || fail "'$1' does not offer '$word': $got"
    done
    count=$((count + 1))
}
expect "sluice tr" train
expect "sluice --v" --version
has "sluice " check train verify version
expect "sluice train --opti" --optimizer
expect "sluice train --optimizer adam" adam adamw
expect "sluice train --verdict " all stage
expect "sluice sched --schedule inter" interleaved
expect "sluice sched --schedule=zb-h" --schedule=zb-h1 --schedule=zb-h2
expect "sluice sched --schedule = zb-h" zb-h1 zb-h2
expect "sluice train gpt-n" :files gpt-nano
expect "sluice train gpt-nano x"
expect "sluice plan gpt-nano --planner graph" graphpipe
expect "sluice machine " check discover ls show
has "sluice machine show " summit :files
expect "sluice list sch" schedules
expect "sluice import pipe" pipedream piper
expect "sluice completion z" zsh
expect "sluice launch -n 2 -- tra" train
expect "sluice launch -n 2 -- train --transport t" tcp threads
expect "sluice verify " :files
expect "sluice ckpt " convert ls verify
expect "sluice nosuch "
# An option that is there already is not offered again, unless it may be repeated.
expect "sluice train gpt-nano --steps 3 --step"
expect "sluice train gpt-nano --set L=2 --set" --set

# Every option of every command, and every command.
for command in $("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    mapfile -t options < <("$SLUICE" "$command" --help | sed -n '/^options:/,$s/^  \(--[^ ]*\).*/\1/p')
    expect "sluice $command --" "${options[@]}"
done

if command -v fish >/dev/null; then
    got=$(fish -c 'sluice completion fish | source; complete -C "sluice train --optimizer adam"' | cut -f1 | sort | tr '\n' ' ')
    [ "$got" = "adam adamw " ] || fail "fish: '$got'"
    got=$(fish -c 'sluice completion fish | source; complete -C "sluice tr"' | cut -f1 | tr '\n' ' ')
    [ "$got" = "train " ] || fail "fish: '$got'"
    echo "fish: ok"
fi
if command -v zsh >/dev/null; then
    # compdef and _describe as a terminal session has them; what is described is what is offered.
    got=$(zsh -f -c '
        compdef() { :; }
        _describe() { print -l ${(P)2%%:*} }
        _files() { print :files }
        source <(sluice completion zsh)
        words=(sluice train --optimizer adam) CURRENT=4
        _sluice' | sort | tr '\n' ' ')
    [ "$got" = "adam adamw " ] || fail "zsh: '$got'"
    echo "zsh: ok"
fi
echo "count: $count completions"
