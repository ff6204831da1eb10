#!/bin/sh
# Makes build/aarch64: a Python for aarch64 with the libraries it needs, out of Debian's packages; qemu-user runs it.
# As root on Debian or Ubuntu, with qemu-user installed: sh tests/aarch64/make_root.sh
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/aarch64/packages
dpkg --add-architecture arm64
apt-get update -qq
cd build/aarch64/packages
version=$(apt-cache depends python3:arm64 | sed -n 's/.*Depends: \(python3\.[0-9]*\):arm64$/\1/p' | head -n 1)
for package in "$version-minimal" "lib$version-minimal" "lib$version-stdlib" \
    libc6 libexpat1 libffi8 libgcc-s1 libgomp1 libssl3 zlib1g; do
    apt-get download -qq "$package:arm64"
done
for package in *.deb; do
    dpkg -x "$package" ..
done
ln -sf "$version" ../usr/bin/python3
qemu-aarch64 -L .. ../usr/bin/python3 -c 'import ctypes, platform; print("ready:", platform.machine())'
