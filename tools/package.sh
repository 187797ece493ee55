#!/usr/bin/env bash
# Packages the release build: package.sh tarball|deb [FOLDER]. Prints the name of the package. The same
# commit gives the same bytes.
#
#   tarball  sluice-VERSION-linux-ARCH.tar.gz: unpack anywhere, run bin/sluice. Contains shared libraries
#            other than libc (hwloc) in lib/sluice, which the program searches first.
#   deb      sluice_VERSION_ARCH.deb: depends on the packages of the linked libraries.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build/release}
what=${1:?tarball or deb}
folder=$(mkdir -p "${2:-$root/build/dist}" && cd "${2:-$root/build/dist}" && pwd)
version=$("$build/sluice" --version)
version=${version#sluice }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

stage() { # PREFIX: an installation without symbols, its times those of the commit
    cmake --install "$build" --prefix "$1" --strip >"$work/install.log"
    # A package has no CUDA module: it needs the libraries of the driver.
    rm -f "$1"/lib*/sluice/libsluice_cuda.so
}
set_times() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

bundle() { # PREFIX: libraries beside libc that the program and the library load
    local library path package
    mkdir -p "$1/lib/sluice"
    ldd "$1/bin/sluice" "$1"/lib/libsluice.so | awk '$2 == "=>" { print $1, $3 }' | sort -u |
        while read -r library path; do
            case $library in libc.so.* | libm.so.* | libpthread.* | libdl.* | ld-linux* | libsluice*) continue ;; esac
            cp -L "$path" "$1/lib/sluice/$library"
            package=$(dpkg -S "$(realpath "$path")" 2>/dev/null | sed 's/:.*//' | head -n 1) || true
            if [ -n "$package" ] && [ -f "/usr/share/doc/$package/copyright" ]; then
                cp "/usr/share/doc/$package/copyright" "$1/share/doc/sluice/LICENSE.$library"
            fi
        done
}

make_tarball() {
    local name
    name=sluice-$version-linux-$(uname -m)
    stage "$work/$name"
    bundle "$work/$name"
    cp "$root/README.md" "$work/$name/"
    set_times "$work/$name"
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$folder/$name.tar.gz"
    echo "$folder/$name.tar.gz"
}

# Packages of the libraries of a file: "libc6 (>= 2.34), libhwloc15 (>= 2.9)".
depends_of() { # ELF...
    mkdir -p "$work/shlibs/debian"
    printf 'Source: sluice\n\nPackage: sluice\nArchitecture: any\n' >"$work/shlibs/debian/control"
    (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "$@" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

make_deb() {
    local arch tree=$work/deb file mpi suggests="bash-completion, python3"
    for tool in dpkg-deb dpkg-shlibdeps; do
        command -v "$tool" >/dev/null || { echo "package: needs $tool (Debian package dpkg-dev)" >&2 && exit 1; }
    done
    arch=$(dpkg --print-architecture)
    stage "$tree/usr"
    gzip -9n "$tree"/usr/share/man/man*/*
    # A link between manual pages contains the name of its target.
    for file in "$tree"/usr/share/man/man5/*.gz; do
        if target=$(gzip -dc "$file" | sed -n 's/^\.so man5\///p') && [ -n "$target" ]; then
            ln -sf "$target.gz" "$file"
        fi
    done
    mkdir -p "$tree/DEBIAN" "$tree/usr/lib/python3/dist-packages"
    mv "$tree/usr/share/sluice/python/sluice" "$tree/usr/lib/python3/dist-packages/"
    rmdir "$tree/usr/share/sluice/python"
    # The loader searches /usr/lib anyway.
    find "$tree/usr" -name sluice.pc -exec sed -i 's/ -Wl,-rpath,[^ ]*//' {} +
    mv "$tree/usr/share/doc/sluice/LICENSE" "$tree/usr/share/doc/sluice/copyright"
    mpi=$(find "$tree/usr" -name libsluice_mpi.so)
    [ -z "$mpi" ] || suggests="$suggests, $(depends_of "$mpi" | sed 's/libc6[^,]*,* *//'), mpi-default-bin"
    cat >"$tree/DEBIAN/control" <<TEXT
Package: sluice
Version: $version
Architecture: $arch
Maintainer: The Sluice authors <sluice@localhost>
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Depends: $(depends_of "$tree/usr/bin/sluice" "$(find "$tree/usr" -type f -name 'libsluice.so.*')")
Suggests: $suggests
Section: science
Priority: optional
Description: pipeline-parallel training of neural networks
 Sluice cuts a model into a graph of stages, proves that the micro-batch
 schedule cannot deadlock, overflow memory or mix weight versions, and runs it
 as threads of one process, as ranks of an MPI job, or on GPUs.
 .
 The package holds the program, the C library with its headers, and the models.
TEXT
    echo 'activate-noawait ldconfig' >"$tree/DEBIAN/triggers"
    (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    set_times "$tree"
    file=$folder/sluice_${version}_$arch.deb
    dpkg-deb --root-owner-group --build "$tree" "$file" >/dev/null
    echo "$file"
}

case $what in
tarball) make_tarball ;;
deb) make_deb ;;
*) echo "package: '$what' is neither tarball nor deb" >&2 && exit 2 ;;
esac
