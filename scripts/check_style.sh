#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks what a compiler does not: formatting, sizes of functions and files, licence lines, names, leftovers, paths of a machine.
# Prints one line per violation; scripts/check_includes.sh and scripts/check_headers.sh are part of it.
set -u
cd "$(dirname "$0")/.." || exit 2
status=0
FORMAT_VERSION=14   # other versions of clang-format break lines differently
FUNCTION_MAX=80
FILE_MAX=700

complain() {
    echo "$*"
    status=1
}

list() {
    git ls-files -co --exclude-standard "$@" | while read -r file; do [ -f "$file" ] && printf '%s\n' "$file"; done
}

code=$(list '*.c' '*.h' '*.inc')

formatter=clang-format-$FORMAT_VERSION
command -v "$formatter" >/dev/null 2>&1 || formatter=clang-format
if $formatter --version 2>/dev/null | grep -q "version $FORMAT_VERSION\."; then
    printf '%s\n' "$code" | grep -v '\.inc$' | xargs $formatter --dry-run -Werror 2>&1 | grep 'error:' && status=1
elif [ "${CI:-}" = true ]; then
    complain "clang-format $FORMAT_VERSION is not here, so the formatting was not checked"
else
    echo "note: clang-format $FORMAT_VERSION is not here, so the formatting was not checked"
fi

# A function body is what stands between braces in the first column.
for file in $code; do
    awk -v file="$file" -v function_max=$FUNCTION_MAX -v file_max=$FILE_MAX '
        /^\{/ { start = NR }
        /^\}/ && start { if (NR - start - 1 > function_max) { print file ":" start ": a function of " NR - start - 1 " lines, " function_max " at most"; bad = 1 } start = 0 }
        END { if (NR > file_max) { print file ": " NR " lines, " file_max " at most"; bad = 1 } exit bad }' "$file" || status=1
    head -n 1 "$file" | grep -q '^/\* SPDX-License-Identifier: Apache-2.0' || complain "$file: the first line is not the licence"
done
for file in $(list '*.sh' '*.cmake' CMakeLists.txt Makefile .ci/run); do
    head -n 2 "$file" | grep -q '^# SPDX-License-Identifier: Apache-2.0' || complain "$file: no licence line at the top"
done

for file in $(list '*'); do
    case "${file##*/}" in
    *util*.[ch] | *common*.[ch] | *helper*.[ch] | *misc*.[ch]) complain "$file: a name that says nothing" ;;
    esac
    case "$file" in
    *[!A-Za-z0-9_./-]*) complain "$file: odd characters in a file name" ;;
    esac
done

# Descriptors of the library stay off 0, 1 and 2: the line that opens one lifts it.
openers='(^|[^A-Za-z0-9_>.])(socket|accept4|epoll_create1|eventfd|memfd_create|open|openat|opendir|fopen|pipe2|socketpair|dup|dup2|SYS_pidfd_open|timerfd_create|signalfd)(\(|,)'
list 'src/*.c' | grep -v '^src/base/descriptor\.c$' | xargs grep -nE "$openers" | grep -vE ':[0-9]+:(/| )\*|motet_descriptor_(keep|lift)\(' |
    sed 's/$/   (a descriptor that does not pass motet_descriptor_lift)/' | grep . && status=1

# Leftovers and paths of one machine. This file has to name what it looks for.
rest=$(list '*' | grep -v -e '^scripts/check_style\.sh$' -e '^tests/fuzz/corpus/' -e '^LICENSE$')
here=$(pwd)
printf '%s\n' "$rest" | xargs grep -nIE '\b(TODO|FIXME|XXX|HACK)\b' | sed 's/$/   (a leftover)/' | grep . && status=1
printf '%s\n' "$rest" | xargs grep -nIE '(^|[^A-Za-z0-9_./-])/(home|root|Users|mnt|media)/[A-Za-z0-9_]' | sed 's/$/   (a path of one machine)/' | grep . && status=1
[ ${#here} -gt 4 ] && printf '%s\n' "$rest" | xargs grep -nIF "$here" | sed 's/$/   (a path of this machine)/' | grep . && status=1

scripts/check_includes.sh || status=1
scripts/check_headers.sh || status=1
exit $status
