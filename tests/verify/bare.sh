#!/bin/sh
# Verify a pack where nothing is installed but Python and openssl: a folder made of Debian's own packages, entered by chroot, as nobody
# and, where that can be had, without network.
# Usage, as root on Debian: [KEY=lab.pem] tests/verify/bare.sh PACK [words for verify.py]; KEY: the publisher's, given as --trust.
# Exit code: that of verify.py; 77: it cannot be tried here, and why is told.
set -eu
pack=$(cd "$1" && pwd)
shift
[ "$(id -u)" = 0 ] || { echo "needs root, for chroot" >&2; exit 77; }
for tool in apt-get apt-cache dpkg-deb chroot; do
    command -v "$tool" >/dev/null || { echo "$tool is not here" >&2; exit 77; }
done
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/debs" "$home/root"
names=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    python3-minimal libpython3-stdlib openssl | grep '^[a-z0-9]' | sort -u)
# What a chroot of plain programs does not need: packages that only configure a system.
names=$(echo "$names" | grep -vE '^(debconf|dpkg|tar|cdebconf|perl.*|ca-certificates|media-types|readline-common)$' || true)
[ -n "$names" ] || { echo "apt has no lists: apt-get update" >&2; exit 77; }
(cd "$home/debs" && apt-get download -q $names >/dev/null 2>"$home/told") || { tail -3 "$home/told" >&2; exit 77; }
for deb in "$home"/debs/*.deb; do dpkg-deb -x "$deb" "$home/root"; done
mkdir -p "$home/root/tmp" "$home/root/pack"
chmod 1777 "$home/root/tmp"
cp -R "$pack/." "$home/root/pack/"
if [ -n "${KEY:-}" ]; then
    cp "$KEY" "$home/root/key.pem"
    set -- --trust /key.pem "$@"
fi
python=$(cd "$home/root/usr/bin" && ls python3.* | grep -E '^python3\.[0-9]+$' | head -1)
[ -n "$python" ] || { echo "no Python came with the packages" >&2; exit 77; }
echo "in it: $(ls "$home"/debs | wc -l) packages, $(chroot "$home/root" "/usr/bin/$python" -V), $(chroot "$home/root" /usr/bin/openssl version)" >&2
alone=
unshare --net true 2>/dev/null && alone="unshare --net"
$alone chroot --userspec=65534:65534 "$home/root" "/usr/bin/$python" -I /pack/verify.py "$@"
