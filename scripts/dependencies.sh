#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what a step needs, if anything is missing: scripts/dependencies.sh run | check | ci
# A need is a command or a header; its Debian package is installed by apt-get, with sudo when not root.
set -u

# command:NAME or header:NAME, then the Debian package.
needs_run='command:cc gcc
header:stdlib.h libc6-dev
command:cmake cmake
header:openssl/hmac.h libssl-dev
header:jansson.h libjansson-dev
header:hwloc.h libhwloc-dev
header:expat.h libexpat1-dev'
needs_check="$needs_run
header:cmocka.h libcmocka-dev
command:pkg-config pkg-config"
needs_ci="$needs_check
command:gcc gcc
command:g++ g++
command:git git
command:clang clang
command:clang-format clang-format
library:clang_rt.tsan libclang-rt-dev
command:ip iproute2
command:valgrind valgrind"

case "${1:-}" in
run) needs=$needs_run ;;
check) needs=$needs_check ;;
ci) needs=$needs_ci ;;
*)
    echo "usage: scripts/dependencies.sh run|check|ci" >&2
    exit 2
    ;;
esac

present() {
    case "$1" in
    command:*) command -v "${1#command:}" >/dev/null 2>&1 ;;
    header:*) printf '#include <stddef.h>\n#include <stdarg.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <%s>\n' \
        "${1#header:}" | cc -fsyntax-only -x c - >/dev/null 2>&1 ;;
    library:*) printf 'int main(void){return 0;}\n' | clang -fsanitize=thread -x c - -o /dev/null >/dev/null 2>&1 ;;
    esac
}

missing_packages() {
    printf '%s\n' "$needs" | while read -r need package; do
        present "$need" || printf '%s ' "$package"
    done
}

missing=$(missing_packages)
[ -z "$missing" ] && exit 0

# clang's sanitizer runtimes carry the compiler's version in the package's name.
case "$missing" in
*libclang-rt-dev*)
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    missing=$(printf '%s' "$missing" | sed "s/libclang-rt-dev/libclang-rt-${version:-14}-dev/")
    ;;
esac

# shellcheck disable=SC2086
set -- $missing
command_line="apt-get update && apt-get install -y --no-install-recommends $*"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "motet needs these packages (Debian's names), and apt-get is not here to install them: $*" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo=sudo
else
    echo "motet needs packages that only root can install. Run this as root, then try again:" >&2
    echo "    $command_line" >&2
    exit 1
fi

echo "Installing: $*"
export DEBIAN_FRONTEND=noninteractive
install() {
    $sudo apt-get install -y -q --no-install-recommends "$@" </dev/null >"$log" 2>&1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! install "$@"; then
    $sudo apt-get update -q </dev/null >"$log" 2>&1
    if ! install "$@"; then
        tail -n 20 "$log" >&2
        echo "The packages could not be installed. The command was, as root: $command_line" >&2
        exit 1
    fi
fi

missing=$(missing_packages)
if [ -n "$missing" ]; then
    echo "Still missing after the installation: $missing" >&2
    exit 1
fi
