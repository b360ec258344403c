#!/usr/bin/env bash
# runInSystem runs this in a network and a process space of its own: in-system.sh SYSTEM NODE REGISTRY HOST FOLDER... -- COMMAND...
# The command runs in the file system SYSTEM. The registry runs outside and serves the tarballs of the folders
# on loopback, the only network there is.
set -euo pipefail
system=$1 node=$2 registry=$3 host=$4
shift 4
folders=()
while [ "$1" != -- ]; do
  folders+=("$1")
  shift
done
shift
ip link set lo up
ip addr add "$host/32" dev lo
mkdir -p "$system/proc" "$system/dev"
mount -t proc proc "$system/proc"
mount --bind /dev "$system/dev"
"$node" "$registry" --port 4873 "${folders[@]}" > /dev/null &
server=$!
trap 'kill $server' EXIT
until (exec 3<> /dev/tcp/127.0.0.1/4873) 2> /dev/null; do sleep 0.1; done
chroot "$system" "$@"
