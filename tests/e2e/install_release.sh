#!/usr/bin/env bash
# Installs into an empty prefix, moves it, and from there builds and runs a program with pkg-config and
# another with find_package(sluice). Also: SONAME, exported names, the binary and its models.
set -euo pipefail
[ "$SL_PRESET" = release ] || { echo "only the release build is installed" && exit 77; }
[ -f "$SRC_DIR/include/sluice.h" ] || { echo "no include/sluice.h" && exit 77; }
for tool in cc cmake pkg-config nm readelf; do
    command -v "$tool" >/dev/null || { echo "no $tool here" && exit 77; }
done
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$BUILD_DIR" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/moved prefix"
prefix="$work/moved prefix"
version=$("$prefix/bin/sluice" --version)
version=${version#sluice }
lib=$(dirname "$(find "$prefix" -name libsluice.so)")
unset LD_LIBRARY_PATH

readelf -d "$lib/libsluice.so" | grep -q "SONAME.*\[libsluice\.so\.${version%.*}\]" || fail "SONAME"
odd=$(nm -D --defined-only "$lib/libsluice.so" | awk '$3 !~ /^(sl_|SLUICE_)/ { print $3 }')
[ -z "$odd" ] || fail "exported without the prefix: $odd"
if [ -d "$SRC_DIR/models" ]; then
    diff -r "$SRC_DIR/models" "$prefix/share/sluice/models" || fail "models are not installed"
fi

mkdir "$work/user"
cat >"$work/user/main.c" <<'C'
#include <sluice.h>
#include <stdio.h>

int main(void) {
    printf("linked with %s\n", sl_version());
    return 0;
}
C
cat >"$work/user/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.21)
project(user C)
find_package(sluice 0.2 REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE sluice::sluice)
CMAKE

# The prefix contains a blank, which word splitting would break; use a link without one.
ln -s "$prefix" "$work/link"
export PKG_CONFIG_PATH=$work/link/${lib#"$prefix/"}/pkgconfig
[ "$(pkg-config --modversion sluice)" = "$version" ] || fail "pkg-config reports another version"
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$work/user/main.c" -o "$work/by_pkg_config" \
    $(pkg-config --cflags --libs sluice)
[ "$("$work/by_pkg_config")" = "linked with $version" ] || fail "the pkg-config program"

cmake -S "$work/user" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/user.log" ||
    { cat "$work/user.log" && fail "find_package(sluice)"; }
cmake --build "$work/build" >"$work/user.log" || { cat "$work/user.log" && fail "the CMake program"; }
[ "$("$work/build/user")" = "linked with $version" ] || fail "the find_package program"
# The examples build from the installed files alone, and the installed program finds its models.
for example in "$SRC_DIR"/examples/*.c; do
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$example" -o "$work/example" \
        $(pkg-config --cflags --libs sluice)
    (cd "$work" && ./example >"$work/example.log") || { cat "$work/example.log" && fail "$example"; }
done
diff -r "$SRC_DIR/examples" "$prefix/share/doc/sluice/examples" || fail "examples are not installed"
# Each header alone, as C11 and as C++.
for header in "$prefix"/include/sluice.h "$prefix"/include/sluice/*.h; do
    printf '#include "%s"\nextern int used;\n' "$header" >"$work/one.c"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" -fsyntax-only "$work/one.c" || fail "C: $header"
    if command -v c++ >/dev/null; then
        cp "$work/one.c" "$work/one.cc"
        c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" -fsyntax-only "$work/one.cc" || fail "C++: $header"
    fi
done
message=$("$prefix/bin/sluice" model gpt2 --set H=7 2>&1) || true
[[ $message == *"$prefix/share/sluice/models/gpt2.model:"* ]] || fail "models are not found beside the binary: $message"

echo "count: $(find "$prefix" -type f | wc -l) files installed"
