#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test: timeout=600
# Every command and every C example of README.md and docs/*.md is run, page by page, in an empty folder, as if motet were installed.
#
#   ```sh            a script; must end with 0
#   ```c NAME.c      a file for the commands that follow; frame.c is put around the page's fragments
#   ```c             a fragment: the body of the frame's function; compiled and started on four ranks
#   ```python        not run, since it needs the installed package: only its form is checked, where there is a Python
#   ```text          nothing, unless the line before says what it is:
#   <!-- output -->          what the block before printed: the same lines but for their numbers
#   <!-- exact output -->    the same lines, numbers too, in any order
#   <!-- run by FILE -->     before ```sh: not run here but by FILE, because it builds everything; make's targets must exist
#
# In expected output a line "..." stands for any lines, and ... within a line for any text. Launchers that are not part of motet are
# stand-ins here, which set for each rank what the real ones set.
build=$(cd "$1" && pwd) || exit 1
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -x "$build/bin/motet" ] || exit 77
if grep -q '^MOTET_SANITIZE:STRING=..*' "$build/CMakeCache.txt"; then
    echo "skipped: programs of strangers have no sanitizer"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
ran=0

complain()
{
    echo "FAIL $page:$line: $1"
    [ -z "${2:-}" ] || sed 's/^/     /' "$2" | head -n 30
    failures=$((failures + 1))
}

# ---- launchers
mkdir "$work/bin" "$work/pages"
cat >"$work/bin/ssh" <<'END'
#!/bin/sh
# ssh [-o OPTION]... HOST COMMAND...
while [ "$1" = -o ]; do shift 2; done
shift
exec sh -c "$*"
END
# start N COMMAND...: N copies, each with its number in $i; ends with the worst status.
cat >"$work/start" <<'END'
start()
{
    n=$1
    shift
    i=0
    status=0
    pids=
    while [ $i -lt "$n" ]; do
        (place && exec "$@") &
        pids="$pids $!"
        i=$((i + 1))
    done
    for pid in $pids; do wait "$pid" || status=$?; done
    exit $status
}
END
# launcher NAME SYNTAX: reads the place of rank $i of $n from stdin; SYNTAX takes the options away and sets n.
launcher()
{
    {
        echo '#!/bin/sh'
        cat "$work/start"
        echo 'place()' && echo '{' && cat && echo '}'
        echo "$2"
        echo 'start "$n" "$@"'
    } >"$work/bin/$1"
}
launcher mpirun '[ "$1" = -n ] && n=$2 && shift 2 || exit 2' <<'END'
    export OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=$n PMIX_NAMESPACE=docs-$$
    export OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_LOCAL_SIZE=$n
END
launcher srun '[ "$1" = -n ] && n=$2 && shift 2 || exit 2' <<'END'
    export SLURM_PROCID=$i SLURM_NTASKS=$n SLURM_STEP_NUM_TASKS=$n SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost
END
launcher torchrun '[ "$1 $2" = "--no-python --nproc-per-node" ] && n=$3 && shift 3 || exit 2' <<'END'
    export RANK=$i WORLD_SIZE=$n LOCAL_RANK=$i LOCAL_WORLD_SIZE=$n TORCHELASTIC_RUN_ID=docs-$$
    export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((21000 + $$ % 9000))
END
chmod +x "$work/bin"/*

# ---- blocks
# Cuts a page into numbered files and prints "NUMBER LINE LANGUAGE NAME MARK" for each block.
cut_page()
{
    awk -v folder="$2" '
        /^```/ && !inside {
            words = split(substr($0, 4), word, " ")
            inside = 1
            number++
            body = folder "/" number ".body"
            printf "" >body
            print number, NR, (words > 0 ? word[1] : "none"), (words > 1 ? word[2] : "-"), (mark == "" ? "-" : mark)
            mark = ""
            next
        }
        /^```$/ && inside { inside = 0; close(body); next }
        inside { print >body; next }
        /^<!-- (exact )?output -->$/ { mark = /exact/ ? "exact" : "output"; next }
        /^<!-- run by .* -->$/ { mark = "by:" $4; next }
        !/^[[:space:]]*$/ { mark = "" }
        END { if (inside) { print "unfinished block" >"/dev/stderr"; exit 1 } }' "$1"
}

# like EXPECTED ACTUAL NUMBERS_MATTER: whether the lines are the same, "..." standing for anything.
like()
{
    awk -v exact="$3" '
        function plain(text) {
            if (!exact) gsub(/[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/, "#", text)
            gsub(/[[:space:]]+/, " ", text)
            sub(/ $/, "", text)
            return text
        }
        function fits(pattern, text,    parts, n, i, at) {
            n = split(pattern, parts, /\.\.\./)
            if (n < 2) return pattern == text
            if (substr(text, 1, length(parts[1])) != parts[1]) return 0
            text = substr(text, length(parts[1]) + 1)
            for (i = 2; i <= n; i++) {
                at = index(text, parts[i])
                if (!at && parts[i] != "") return 0
                text = parts[i] == "" ? text : substr(text, at + length(parts[i]))
            }
            return parts[n] == "" || text == ""
        }
        FNR == NR { expected[++wanted] = plain($0); next }
        { actual[++got] = plain($0) }
        END {
            for (i = j = 1; i <= wanted; i++) {
                if (expected[i] == "...") {
                    if (i == wanted) exit 0
                    while (j <= got && !fits(expected[i + 1], actual[j])) j++
                    continue
                }
                if (j > got || !fits(expected[i], actual[j])) {
                    print "expected: " expected[i]
                    print "got:      " (j > got ? "(nothing more)" : actual[j])
                    exit 1
                }
                j++
            }
            if (j <= got) { print "more than expected: " actual[j]; exit 1 }
        }' "$1" "$2"
}

compare()
{
    if [ "$1" = exact ]; then
        sort "$body" >"$work/expected"
        sort "$work/out" >"$work/actual"
        like "$work/expected" "$work/actual" 1 >"$work/difference" || complain "prints something else" "$work/difference"
    else
        like "$body" "$work/out" 0 >"$work/difference" || complain "prints something else" "$work/difference"
    fi
}

execute()
{
    ran=$((ran + 1))
    (cd "$scratch" && timeout 120 "$@") >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status = 0 ] && return 0
    cat "$work/out" >>"$work/err"
    complain "ends with $status" "$work/err"
    return 1
}

# Blocks that build or install everything: the file that runs them is there, and so is every target of make.
elsewhere()
{
    [ -f "$root/$1" ] || complain "$1 is not there"
    sed -n 's/^make \([a-z]*\).*/\1/p' "$body" | while read -r target; do
        make -n -C "$root" "$target" >/dev/null 2>&1 || echo "$target"
    done >"$work/targets"
    [ ! -s "$work/targets" ] || complain "make has no such target" "$work/targets"
}

fragment()
{
    [ -f "$scratch/frame.c" ] || { complain "no frame.c before this fragment"; return; }
    awk -v body="$body" '
        /\/\* here \*\// { while ((getline text <body) > 0) print "    " text; next }
        { print }' "$scratch/frame.c" >"$scratch/fragment.c"
    execute ${CC:-cc} -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror fragment.c -lmotet -o fragment &&
        execute motet run -q -n 4 ./fragment
}

run_block()
{
    case "$language:$mark" in
    sh:by:*) elsewhere "${mark#by:}" ;;
    sh:*) execute sh -eu "$body" ;;
    c:*)
        if [ "$name" = - ]; then
            fragment
        else
            cp "$body" "$scratch/$name"
            execute ${CC:-cc} -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror -c "$name" -o "$name.o"
        fi
        ;;
    python:-)
        ! command -v python3 >/dev/null ||
            execute python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$body"
        ;;
    text:output | text:exact) compare "$mark" ;;
    text:-) ;;
    *) complain "a block of a kind that this test does not know: $language $mark" ;;
    esac
}

export PATH="$build/bin:$work/bin:$PATH" C_INCLUDE_PATH="$root/include" LIBRARY_PATH="$build/lib" LD_LIBRARY_PATH="$build/lib"
unset MOTET_DEBUG RANK WORLD_SIZE 2>/dev/null
for path in "$root/README.md" "$root"/docs/*.md; do
    page=${path#"$root/"}
    scratch=$work/pages/$(basename "$page" .md)
    blocks=$scratch.blocks
    mkdir "$scratch" "$blocks"
    ln -s "$root/examples" "$root/include" "$scratch/"
    line=0
    cut_page "$path" "$blocks" >"$blocks/index" 2>"$work/err" || complain "cannot be cut into blocks" "$work/err"
    before=$ran
    while read -r number line language name mark; do
        body=$blocks/$number.body
        run_block
    done <"$blocks/index"
    [ "$ran" = "$before" ] || echo "ok   $page: $((ran - before)) commands and examples"
done
[ "$ran" -ge 20 ] || { echo "FAIL only $ran commands were found"; exit 1; }
echo "$ran run, $failures failures"
[ "$failures" = 0 ]
