#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test: timeout=120
# Installs a build into an empty folder and uses it as a stranger would: pkg-config, find_package, C and C++, the command under its
# other names, manual pages. Called with the build directory.
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

# Sanitizers have to be linked into the program too; a stranger's program has none.
if grep -q '^MOTET_SANITIZE:STRING=..*' "$build/CMakeCache.txt"; then
    echo "skipped: a build with sanitizers is not for installing"
    exit 77
fi

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
library_dir=$(dirname "$(find "$prefix" -name libmotet.so)")
test -e "$library_dir/libmotet.so"
test -h "$library_dir/libmotet.so"
test -f "$prefix/include/motet.h"
(cd include && find . -type f | sort) >"$work/headers"
(cd "$prefix/include" && find . -type f | sort) | diff "$work/headers" -

cat >"$work/program.c" <<'END'
#include <motet.h>
#include <stdio.h>

int main(void)
{
    int version = 0, count = 0;
    if (motetGetVersion(&version) != motetSuccess || motetParamCount(&count) != motetSuccess || count < 10)
        return 1;
    printf("%d\n", version);
    return version == MOTET_VERSION_CODE ? 0 : 2;
}
END
cp "$work/program.c" "$work/program.cc"

# Loaded by a program that runs already, as other languages do: then there is little thread-local storage left.
cat >"$work/load.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    return dlsym(library, "motetGetVersion") ? dlclose(library) : 2;
}
END
"${CC:-cc}" "$work/load.c" -o "$work/load" -ldl
"$work/load" "$library_dir/libmotet.so"

# pkg-config. A relocated prefix is given by --define-prefix, as packagers do.
export PKG_CONFIG_PATH="$library_dir/pkgconfig"
if command -v pkg-config >/dev/null 2>&1; then
    flags=$(pkg-config --define-variable=prefix="$prefix" --define-variable=libdir="$library_dir" \
        --define-variable=includedir="$prefix/include" --cflags --libs motet)
    # shellcheck disable=SC2086
    cc -o "$work/by_pkg_config" "$work/program.c" $flags
    LD_LIBRARY_PATH=$library_dir "$work/by_pkg_config" >/dev/null
    version=$(pkg-config --modversion motet)
    grep -q "MOTET_VERSION_STRING \"$version\"" "$prefix/include/motet.h"
fi

# CMake, C and (where there is a compiler) C++.
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(stranger C)
find_package(motet REQUIRED)
add_executable(program ../program.c)
target_link_libraries(program PRIVATE motet::motet)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    add_executable(program_cc ../program.cc)
    target_link_libraries(program_cc PRIVATE motet::motet)
endif()
END
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/project.log"
cmake --build "$work/project/build" >>"$work/project.log"
"$work/project/build/program" >/dev/null
[ ! -e "$work/project/build/program_cc" ] || "$work/project/build/program_cc" >/dev/null

# The command finds its library beside it, and answers to nccl-tests' names.
"$prefix/bin/motet" version >/dev/null
for name in all_reduce all_gather broadcast reduce reduce_scatter alltoall gather scatter sendrecv; do
    test -h "$prefix/bin/${name}_perf"
    test -x "$prefix/bin/${name}_perf"
done
"$prefix/bin/all_reduce_perf" --help >"$work/help"
grep -q all_reduce "$work/help"
for page in motet motet-run motet-perf motet-env; do
    grep -q '^\.TH' "$prefix/share/man/man1/$page.1"
done
test -s "$prefix/share/bash-completion/completions/motet"
test -s "$prefix/share/zsh/site-functions/_motet"
test -s "$prefix/share/fish/vendor_completions.d/motet.fish"
echo "installed and used"
