# shellcheck shell=bash
# Two hosts made of network namespaces with a wire between them. Sourced.

# Host A has address NET.1, host B has NET.2; fails where namespaces are not allowed.
make_hosts() { # A B NET
    ip netns add "$1" && ip netns add "$2" &&
        ip link add wire netns "$1" type veth peer name wire netns "$2" &&
        ip -n "$1" addr add "$3.1/24" dev wire && ip -n "$2" addr add "$3.2/24" dev wire &&
        ip -n "$1" link set lo up && ip -n "$2" link set lo up &&
        ip -n "$1" link set wire up && ip -n "$2" link set wire up
}

# Two agents in a folder, which do a command on a host, under the host's name: DIR/enter HOST 'COMMAND ...', as mpirun
# asks, and DIR/enter-exec HOST COMMAND...
write_agents() { # DIR
    cat >"$1/enter-exec" <<'TEXT'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
TEXT
    cat >"$1/enter" <<'TEXT'
#!/bin/sh
host=$1
shift
exec "$(dirname "$0")/enter-exec" "$host" sh -c "$*"
TEXT
    chmod +x "$1/enter" "$1/enter-exec"
}

drop_hosts() { # A B
    ip netns del "$1" 2>/dev/null || true
    ip netns del "$2" 2>/dev/null || true
}
