#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the command table yields: help, manual pages, completion; motet env and the settings page.
checks=$(cd "$(dirname "$0")" && pwd)/check.sh
build=$1
motet=$build/bin/motet
[ -x "$motet" ] || exit 77
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$checks"

run()
{
    wanted=$1
    shift
    expect "$wanted" "$@"
}

has() { grep -q -- "$1" "$work/$2"; }

check "overview" run 0 "$motet" help
for name in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' "$work/out"); do
    check "$name --help" run 0 "$motet" "$name" --help
    check "$name --help has a usage line" has "^usage: motet $name" out
    cp "$work/out" "$work/help"
    check "motet help $name" run 0 "$motet" help "$name"
    check "is the same text" cmp -s "$work/help" "$work/out"
    check "manual page of $name" run 0 "$motet" help --man "$name"
    check "is roff" has '^\.SH SYNOPSIS' out
    if command -v groff >/dev/null; then
        groff -man -ww -Tutf8 "$work/out" >"$work/page" 2>"$work/err"
        check "that groff accepts without a warning" [ ! -s "$work/err" ]
        # Every long option of the help is in the page.
        for option in $(grep -oE '^  (-[a-zA-Z], |    )--[a-z_-]+' "$work/help" | grep -oE -- '--[a-z_-]+'); do
            [ "$option" = --help ] || check "page has $option" grep -q -F -- "$(echo "$option" | sed 's/-/\\-/g')" "$work/out"
        done
    fi
done
check "manual page of the program" run 0 "$motet" help --man motet
check "no command is a usage error" run 2 "$motet"
check "an unknown command" run 2 "$motet" perv
check "names the nearest" has 'did you mean perf' err
check "--version" run 0 "$motet" --version
check "--help" run 0 "$motet" --help
[ ! -e /dev/full ] || check "a full disk is an error" sh -c "! \"$motet\" help run >/dev/full 2>\"$work/err\""

for shell in bash zsh fish; do
    check "completion for $shell" run 0 "$motet" help --completion $shell
    command -v $shell >/dev/null || continue
    check "that $shell can read" $shell -n "$work/out"
done
if command -v bash >/dev/null; then
    "$motet" help --completion bash >"$work/completion"
    complete()
    {
        bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _motet; echo "${COMPREPLY[*]}"' - "$work/completion" "$@"
    }
    check "completes commands" [ "$(complete motet ru)" = run ]
    check "completes options" [ "$(complete motet run --max-r)" = --max-restarts ]
    check "completes values" [ "$(complete motet run --bind c)" = core ]
    check "completes collectives" [ "$(complete motet perf all_r)" = all_reduce ]
fi

check "env" run 0 "$motet" env
check "says where a value came from" has '^MOTET_BUFFSIZE .* default ' out
MOTET_BUFFSIZE=2M check "a variable that is set" run 0 "$motet" env
MOTET_BUFFSIZE=2M "$motet" env >"$work/out" 2>&1
check "is shown as such" has '^MOTET_BUFFSIZE  *2M  *environment ' out
MOTET_BUFFSIZE=2X run 1 "$motet" env
check "a value that init would refuse" has 'refused: ' out
NCCL_BUFFSIZE=4194304 NCCL_IB_HCA=mlx5 "$motet" env --from-nccl >"$work/out"
check "NCCL's variables as exports" has "^export MOTET_BUFFSIZE='4194304'$" out
NCCL_BUFFSIZE=4194304 NCCL_NO_SUCH=1 "$motet" env >"$work/out"
check "are listed beside their counterparts" has 'NCCL_BUFFSIZE=4194304 -> MOTET_BUFFSIZE' out
check "or as having none" has 'NCCL_NO_SUCH=1 has no counterpart' out
MOTET_SECRET=00112233445566778899aabbccddeeff "$motet" env >"$work/out"
check "the secret is not shown" sh -c "! grep -q 00112233 '$work/out'"
check "env --json" run 0 "$motet" env --json
check "has the settings" has '"name": "MOTET_BUFFSIZE"' out
check "two forms at once are refused" run 2 "$motet" env --json --markdown
check "settings page" run 0 env -i "$motet" env --markdown
if [ -f "$root/docs/settings.md" ]; then
    check "is the one in docs/" cmp -s "$work/out" "$root/docs/settings.md"
fi

echo "$failures failed"
[ $failures -eq 0 ]
