#!/usr/bin/env bash
# Completions in the shells: bash always, fish and zsh if installed.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home"
ln -s "$SLUICE" "$work/bin/sluice"
export PATH=$work/bin:$PATH HOME=$work/home
count=0

# Candidates that bash offers for a line; ':files' stands for file names.
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
expect "sluice train --clip-scope " global stage
expect "sluice sched --schedule inter" interleaved
expect "sluice sched --schedule=zb-h" --schedule=zb-h1 --schedule=zb-h2
expect "sluice sched --schedule = zb-h" zb-h1 zb-h2
expect "sluice train gpt-n" :files gpt-nano
expect "sluice train gpt-nano x"
expect "sluice plan gpt-nano --planner graphp" graphpipe
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
# An option already given is not offered twice, unless it may be repeated.
expect "sluice train gpt-nano --steps 3 --step"
expect "sluice train gpt-nano --set L=2 --set" --set

# Every option of every command, and every command.
for command in $("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    mapfile -t options < <("$SLUICE" "$command" --help | sed -n '/^options:/,$s/^  \(--[^ ]*\).*/\1/p')
    expect "sluice $command --" "${options[@]}"
done

# Interactive shells: keys typed, the line after Tab, the command that runs.
cd "$work"
sluice sched --chain 2 --schedule 1f1b --micro 2 -o only.sched --quiet >/dev/null
typed() { # SET-UP SHELL...
    {
        echo "$1"
        printf '%s\t%s\t%s\t%s\n' \
            "sluice versi" "sluice version " "--json" '"name": "sluice"' \
            "sluice sched --chain 4 --mic" "--micro " "2 --schedule gpipe" "gpipe (sync)" \
            "sluice sched --chain 4 --micro 4 --schedule inter" "interleaved " "" "interleaved (sync)" \
            "sluice machine disc" "machine discover " "--json" '"devices"' \
            "sluice verify onl" "only.sched " "--json" '"verified": true' \
            "sluice launch -n 1 -- vers" "version " "" "sluice "
    } >"$work/script"
    python3 "$SRC_DIR/tests/e2e/type_in_shell.py" "$work/script" "${@:2}" || exit 1
    count=$((count + 6))
}
if command -v python3 >/dev/null; then
    typed 'source <(sluice completion bash)' bash --norc -i
    if command -v zsh >/dev/null; then
        typed 'autoload -Uz compinit; compinit -u -D; source <(sluice completion zsh)' zsh -f -i
        # As installed: a file on fpath.
        mkdir "$work/site" && sluice completion zsh >"$work/site/_sluice"
        typed "fpath=($work/site \$fpath); autoload -Uz compinit; compinit -u -D" zsh -f -i
    fi
fi
if command -v fish >/dev/null; then
    in_fish() { # LINE
        # shellcheck disable=SC2016
        fish --no-config -c 'sluice completion fish | source; complete -C $argv[1]' -- "$1" | cut -f1 | sort | tr '\n' ' '
    }
    fish_gives() { # LINE WORDS...
        local got want
        got=$(in_fish "$1")
        want=$(printf '%s\n' "${@:2}" | sort | tr '\n' ' ')
        [ "$got" = "$want" ] || fail "fish: '$1' gives '$got', expected '$want'"
        count=$((count + 1))
    }
    fish_gives "sluice tr" train
    fish_gives "sluice train --optimizer adam" adam adamw
    fish_gives "sluice train --verdict " all stage
    fish_gives "sluice sched --schedule=zb-h" --schedule=zb-h1 --schedule=zb-h2
    fish_gives "sluice plan gpt-nano --planner graphp" graphpipe
    fish_gives "sluice machine di" discover
    fish_gives "sluice verify onl" only.sched
    fish_gives "sluice launch -n 2 -- train --transport t" tcp threads
    for command in train plan sim launch; do
        mapfile -t options < <("$SLUICE" "$command" --help | sed -n '/^options:/,$s/^  \(--[^ ]*\).*/\1/p')
        fish_gives "sluice $command --" "${options[@]}"
    done
    echo "fish: ok"
fi
echo "count: $count completions"
