#!/bin/bash
# Process 1 of a site or of a gateway: it runs nothing itself. Programs enter its network, mount, UTS, IPC and PID namespaces. Killing it ends all of
# them, whatever user they run as, and every mount and network device there.
#
# usage: idle-init.sh HOSTS READY USR     HOSTS: its /etc/hosts      READY: the file that is there once programs can be started
#                                         USR: the folders of /usr, as `lowerdir` of an overlay has them; /usr is the machine's own
set -eu
mount -t proc proc /proc
if [ "$3" != /usr ]; then mount -t overlay -o "ro,lowerdir=$3" overlay /usr; fi
mount --bind "$1" /etc/hosts
ip link set lo up
: >"$2"
# Orphans are reaped by bash.
while true; do sleep infinity & wait; done
