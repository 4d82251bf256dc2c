# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of commands that need nothing but the command: ". command.sh", with the build folder as the test's first argument. The
# test goes on in an empty folder, $work, that is removed at its end; see check.sh for the rest.
checks=$(cd "$(dirname "$0")" && pwd)/check.sh
build=$(cd "$1" && pwd) || exit 1
motet=$build/bin/motet
[ -x "$motet" ] || exit 77
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$checks"

# run CODE ARGUMENTS...: motet's exit code.
run()
{
    wanted=$1
    shift
    expect "$wanted" timeout 60 "$motet" "$@" </dev/null
}

has() { grep -qE -- "$1" "$2"; }
