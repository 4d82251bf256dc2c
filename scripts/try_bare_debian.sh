#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tries the README's two commands on machines with nothing on them: scripts/try_bare_debian.sh [RELEASE...], by default bookworm and
# trixie. Each release is unpacked by debootstrap into a folder of its own; a clone of HEAD and the program "make" are put into it,
# then "make run" and "make check" run there. Needs root and debootstrap. TRY_FOLDER (default: a temporary one) keeps the bare systems
# for the next time. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
releases=("$@")
[ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie)

[ "$(id -u)" = 0 ] || { echo "needs root, for debootstrap and chroot" >&2; exit 1; }
for command in debootstrap unshare git; do
    command -v $command >/dev/null || { echo "needs $command" >&2; exit 1; }
done

# The mirror is the one that this machine's own apt uses.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' "Created-By: Packages" |
    awk '$3 == "main" && $2 !~ /-(security|updates)$/ && $1 ~ /\/debian\/?$/ { print $1; exit }')
[ -n "$mirror" ] || { echo "apt on this machine has no Debian mirror configured" >&2; exit 1; }

if [ -n "${TRY_FOLDER:-}" ]; then
    folder=$TRY_FOLDER
    mkdir -p "$folder"
else
    folder=$(mktemp -d)
    trap 'rm -rf --one-file-system "$folder"' EXIT
fi

passed=0
failed=0
verdict() {
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
        echo "ok    $2"
    else
        failed=$((failed + 1))
        echo "FAIL  $2"
        tail -n 40 "$3" | sed 's/^/    /'
    fi
}

# in_system ROOT COMMAND: runs it inside, with mounts and processes of its own, so that nothing is left when it ends.
in_system() {
    unshare --mount --pid --fork bash -c '
        set -e
        mount --bind "$1" "$1" # or its root would be no mount, which no container has
        cd "$1"
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount --rbind /sys "$1/sys"
        exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C ${http_proxy:+http_proxy="$http_proxy"} \
            ${https_proxy:+https_proxy="$https_proxy"} DEBIAN_FRONTEND=noninteractive /bin/sh -c "$2"' in_system "$1" "$2" </dev/null
}

for release in "${releases[@]}"; do
    root=$folder/$release
    log=$folder/$release.log
    if [ ! -e "$root/etc/debian_version" ]; then
        debootstrap --variant=minbase "$release" "$root" "$mirror" >"$log" 2>&1
        verdict $? "$release: debootstrap" "$log"
    fi
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    rm -rf --one-file-system "$root/opt/motet"
    git clone -q --no-hardlinks . "$root/opt/motet"
    in_system "$root" "apt-get update -q && apt-get install -y -q --no-install-recommends make" >"$log" 2>&1
    verdict $? "$release: apt-get install make" "$log"
    for command in run check; do
        start=$SECONDS
        in_system "$root" "cd /opt/motet && make $command" >"$log" 2>&1
        verdict $? "$release: make $command, $((SECONDS - start)) s: $(tail -n 1 "$log")" "$log"
        cp "$log" "$folder/$release.$command.log"
    done
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
