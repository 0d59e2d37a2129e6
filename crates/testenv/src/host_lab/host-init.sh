#!/bin/bash
# Process 1 of a host: a D-Bus system bus and NetworkManager, in network, mount, UTS, IPC and PID namespaces of their own. It sees the machine's files,
# but writes none of them: what a host's network is configured by is its own. Killing it ends every process and every mount of the host.
#
# usage: host-init.sh NAME ADDRESS GATEWAY FOLDER USR SERVICES
#   FOLDER: its logs, and NetworkManager.conf   USR: the folders of /usr, as `lowerdir` of an overlay has them; /usr is the machine's own
#   SERVICES: nm for D-Bus and NetworkManager, nm-ovs for Open vSwitch too, none for no service
set -eu
name=$1 address=$2 gateway=$3 folder=$4 usr=$5 services=$6

# Opened before anything is mounted over the folder.
exec {network_manager_log}>>"$folder/NetworkManager.log" {dbus_log}>>"$folder/dbus.log"
configuration=$(<"$folder/NetworkManager.conf")
if [ "$services" = nm-ovs ]; then exec {ovs_log}>>"$folder/openvswitch.log"; fi
# Programs and libraries over the machine's, whose others run with them.
if [ "$usr" != /usr ]; then mount -t overlay -o "ro,lowerdir=$usr" overlay /usr; fi
hostname "$name"

mount -t proc proc /proc
# Of this network namespace. Read-only, NetworkManager takes it that there is no udev to wait for (without one, devices would stay unmanaged);
# the devices' own folder is writable, for it sets options of bridges there.
mount -t sysfs sysfs /sys
mount --bind /sys/devices/virtual/net /sys/devices/virtual/net
mount -o remount,bind,ro /sys

mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /mnt/upper /mnt/work
# Over all of /etc: a file that is renamed into place, as resolv.conf is, cannot be a mount.
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc
# The agent's and NetworkManager's state, locks, leases.
mount -t tmpfs -o mode=755 tmpfs /var
mkdir -p /var/lib/NetworkManager /var/lib/dbus /var/log /var/cache /var/tmp
ln -s ../run /var/run
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/dbus /run/NetworkManager /run/lock
for connections in /etc/NetworkManager /usr/lib/NetworkManager/conf.d /usr/lib/NetworkManager/system-connections; do
  # The machine's own have no place here.
  if [ -d "$connections" ]; then mount -t tmpfs -o mode=755 tmpfs "$connections"; fi
done
mkdir -p /etc/NetworkManager/conf.d /etc/NetworkManager/system-connections
echo "$configuration" >/etc/NetworkManager/NetworkManager.conf
rm -f /etc/resolv.conf
touch /etc/resolv.conf
tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
# D-Bus runs as this user, which the installation of its package would make.
if ! grep -q ^messagebus: /etc/passwd; then
  echo "messagebus:x:64998:64998::/nonexistent:/usr/sbin/nologin" >>/etc/passwd
  echo "messagebus:x:64998:" >>/etc/group
fi

# What an installer would have left: the card that leads to the gateway, by an ordinary connection.
cat >/etc/NetworkManager/system-connections/eth0.nmconnection <<END
[connection]
id=eth0
uuid=$(cat /proc/sys/kernel/random/uuid)
type=ethernet
interface-name=eth0

[ipv4]
method=manual
address1=$address/24,$gateway
dns=$gateway;

[ipv6]
method=link-local
addr-gen-mode=0
END
chmod 600 /etc/NetworkManager/system-connections/eth0.nmconnection
cp -a /etc/NetworkManager/system-connections/eth0.nmconnection /mnt/

ip link set lo up
# The lab plugs in the cards, this one last.
until [ -e /sys/class/net/eth0 ]; do sleep 0.02; done

if [ "$services" = none ]; then
  ip link set eth0 up
  ip address add "$address/24" dev eth0
  ip route add default via "$gateway"
  sleep infinity &
  wait
  exit
fi

# service NAME LOG COMMAND...: started again whenever it ends, unless /run/NAME.stopped is there
service() {
  local unit=$1 log=$2
  shift 2
  while true; do
    while [ -e "/run/$unit.stopped" ]; do sleep 0.05; done
    "$@" >&"$log" 2>&1 </dev/null &
    echo $! >"/run/$unit.new"
    mv "/run/$unit.new" "/run/$unit.pid"
    wait $! || true
    sleep 0.1
  done
}

service dbus "$dbus_log" dbus-daemon --system --nofork --nopidfile --nosyslog &
until [ -S /run/dbus/system_bus_socket ]; do sleep 0.02; done
if [ "$services" = nm-ovs ]; then
  mkdir -p /run/openvswitch /var/log/openvswitch /var/lib/openvswitch
  ovsdb-tool create /var/lib/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
  socket=/run/openvswitch/db.sock
  service ovsdb "$ovs_log" ovsdb-server /var/lib/openvswitch/conf.db --remote=punix:$socket &
  until [ -S $socket ]; do sleep 0.02; done
  ovs-vsctl --no-wait init
  # Debian has several of them, of which an installation would choose this one.
  PATH=$PATH:/usr/lib/openvswitch-switch service vswitchd "$ovs_log" ovs-vswitchd unix:$socket &
fi
# In the foreground, with its log on stderr.
service NetworkManager "$network_manager_log" NetworkManager --debug &
wait
