#!/usr/bin/env bash
# The packages. dpkg installs the Debian package into a root with only its declared dependencies, where it runs
# without a network. The tarball runs in a root with libc only.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
for tool in dpkg dpkg-deb dpkg-shlibdeps dpkg-query chroot cmake; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool here" && exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: only root can make a root" && exit 77; }
[ -f /var/lib/dpkg/info/libc6:amd64.list ] || [ -f /var/lib/dpkg/info/libc6.list ] || { echo "SKIPPED: not a Debian" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unshare --net --mount true 2>/dev/null || { echo "SKIPPED: no namespaces here" && exit 77; }

# A package and its dependencies, from this machine.
closure() { # PACKAGE...
    local todo=("$@") done=" " name
    while [ ${#todo[@]} -gt 0 ]; do
        name=${todo[0]}
        todo=("${todo[@]:1}")
        case $done in *" $name "*) continue ;; esac
        dpkg-query -s "$name" >/dev/null 2>&1 || continue
        done+="$name "
        mapfile -t -O "${#todo[@]}" todo < <(dpkg-query -W -f '${Pre-Depends},${Depends}\n' "$name" |
            tr ',|' '\n' | sed 's/([^)]*)//; s/:any//; s/ //g; /^$/d')
    done
    echo "$done"
}
add_package() { # ROOT PACKAGE: its files that exist, and dpkg's word that it is there
    dpkg-query -L "$2" | while IFS= read -r file; do
        if [ -f "$file" ] || [ -L "$file" ]; then echo "$file"; fi
    done | grep -v -e '^/usr/share/' -e '^/sbin/' -e '/gconv/' >"$work/files" || true
    [ ! -s "$work/files" ] || tar -C / -cPf - -T "$work/files" | tar -C "$1" --transform 'flags=r;s|^/||' -xPf -
    dpkg-query -s "$2" >>"$1/var/lib/dpkg/status"
    echo >>"$1/var/lib/dpkg/status"
}
new_root() { # ROOT
    mkdir -p "$1"/{tmp,dev,proc,var/lib/dpkg/{info,updates,triggers},usr/{bin,sbin,lib,lib64},etc}
    for top in bin sbin lib lib64; do ln -s "usr/$top" "$1/$top"; done
    : >"$1/var/lib/dpkg/status"
    : >"$1/dev/null"
}
run_in() { # ROOT COMMAND...: with /proc, a loopback device and nothing else
    # shellcheck disable=SC2016
    unshare --net --mount env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp bash -c '
        mount --bind /proc "$1/proc"
        ip link set lo up 2>/dev/null
        exec chroot "$@"' - "$@"
}

deb=$("$SRC_DIR/tools/package.sh" deb "$work/dist")
again=$("$SRC_DIR/tools/package.sh" deb "$work/again")
cmp "$deb" "$again" || fail "the same build gives another package"
depends=$(dpkg-deb -f "$deb" Depends)
[[ $depends == *libc6* ]] || fail "depends on: $depends"
if dpkg-deb -c "$deb" | awk '{ print $6 }' | grep -v -e '^\./$' -e '^\./usr/'; then
    fail "files outside of /usr"
fi

new_root "$work/root"
read -ra named <<<"$(sed 's/([^)]*)//g; s/[,|]/ /g' <<<"$depends")"
for package in $(closure "${named[@]}"); do
    add_package "$work/root" "$package"
done
dpkg --root="$work/root" --force-script-chrootless --no-triggers -i "$deb" >"$work/log" 2>&1 || { cat "$work/log" && fail "dpkg -i"; }
run_in "$work/root" /usr/bin/sluice doctor --quick >"$work/doctor" || { cat "$work/doctor" && fail "doctor"; }
run_in "$work/root" /usr/bin/sluice train mlp --stages 2 --steps 2 --batch 4 --micro 2 --out /tmp/run --quiet || fail "train"
run_in "$work/root" /usr/bin/sluice launch -n 2 -- train mlp --stages 2 --steps 2 --batch 4 --micro 2 --out /tmp/ranks --quiet || {
    ! command -v ip >/dev/null || fail "launch" # without ip there is no loopback device
}
run_in "$work/root" /usr/bin/sluice list models | grep -q gpt2 || fail "models"
for file in share/man/man1/sluice-train.1.gz share/man/man5/sluice-sched.5.gz share/bash-completion/completions/sluice; do
    [ -e "$work/root/usr/$file" ] || fail "no $file"
done
dpkg --root="$work/root" --force-script-chrootless --no-triggers -r sluice >"$work/log" 2>&1 || { cat "$work/log" && fail "dpkg -r"; }
[ ! -e "$work/root/usr/bin/sluice" ] || fail "removed, and still there"

# Examples and Python package out of the Debian package.
dpkg -x "$deb" "$work/x"
lib=$(dirname "$(find "$work/x" -name libsluice.so)")
for example in "$work"/x/usr/share/doc/sluice/examples/*.c; do
    # shellcheck disable=SC2046
    cc -std=c11 -Werror "$example" -o "$work/example" $(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs sluice)
    (cd "$work" && LD_LIBRARY_PATH=$lib ./example >/dev/null) || fail "$example of the package"
done
if [ -x /usr/bin/python3 ]; then
    (cd "$work" && PYTHONPATH=$work/x/usr/lib/python3/dist-packages /usr/bin/python3 -c \
        'import sluice; print(sluice.train("mlp", steps=2).losses)') >/dev/null || fail "import sluice from the package"
fi

# The tarball in a root with libc only.
tarball=$("$SRC_DIR/tools/package.sh" tarball "$work/dist")
new_root "$work/bare"
for package in $(closure libc6); do add_package "$work/bare" "$package"; done
mkdir -p "$work/bare/opt/some where"
tar -C "$work/bare/opt/some where" -xzf "$tarball"
program="/opt/some where/$(basename "$tarball" .tar.gz)/bin/sluice"
run_in "$work/bare" "$program" train mlp --stages 2 --steps 2 --batch 4 --micro 2 --out /tmp/run --quiet || fail "tarball: train"
cmp "$work/root/tmp/run/ckpt/"*/manifest.json "$work/bare/tmp/run/ckpt/"*/manifest.json || fail "other bytes"
echo "count: package of $(dpkg-deb -c "$deb" | grep -vc '/$') files, depends on ${depends//,/;}; $(du -h "$tarball" | cut -f1) tarball"
