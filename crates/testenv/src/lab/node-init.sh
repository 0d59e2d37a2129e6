#!/bin/bash
# Process 1 of a node. It runs in network, mount, UTS, IPC and PID namespaces of its own, makes a root folder of its own, and runs
# containerd and the kubelet there as a service manager would. Killing it ends every process and every mount of the node.
#
# usage: node-init.sh NAME ADDRESSES ROOT PROGRAMS LOGS OVS GATEWAYS USR
# ADDRESSES are as for the kubelet's --node-ip, first the IPv4 one. OVS is not empty: Open vSwitch runs here.
# GATEWAYS are one for each address: then NetworkManager runs here, and configures eth0.
# USR are the folders of /usr, as `lowerdir` of an overlay has them.
set -eu
name=$1 addresses=$2 root=$3 programs=$4 logs=$5 ovs=$6 gateways=$7 usr=$8

hostname "$name"
mount --bind "$root" "$root"
mount --make-private "$root"
cd "$root"
mkdir -p usr .usr/upper .usr/work etc dev proc sys run tmp root old opt/bin opt/cni/bin etc/cni/net.d \
  var/lib/sysctl var/tmp var/log/pods var/log/containers
for link in bin sbin lib lib32 lib64; do if [ -L "/$link" ]; then ln -sfn "usr/$link" "$link"; fi; done
# The machine's programs; what a node writes there stays its own. Published manifests expect the folder of kernel modules, even an empty one.
mount -t overlay -o "lowerdir=$usr,upperdir=.usr/upper,workdir=.usr/work" usr usr
mkdir -p usr/lib/modules
# alternatives: some programs of Debian are links that lead there.
for file in passwd group nsswitch.conf protocols services alternatives ld.so.cache; do
  if [ -e "/etc/$file" ]; then cp -a "/etc/$file" etc/; fi
done
# No name server: with none named, the one asked is on loopback, where nobody answers, at once.
echo "# This node resolves no names." >etc/resolv.conf
printf '127.0.0.1 localhost\n::1 localhost\n%s %s\n' "${addresses%%,*}" "$name" >etc/hosts
if [ ! -s etc/machine-id ]; then tr -d - </proc/sys/kernel/random/uuid >etc/machine-id; fi

mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs sysfs sys
# sysfs is the one of this network namespace; the control groups are the machine's.
mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
for hierarchy in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
  mkdir "sys/fs/cgroup/$hierarchy"
  mount --bind "/sys/fs/cgroup/$hierarchy" "sys/fs/cgroup/$hierarchy"
done
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/netns run/lock
ln -sfn ../run var/run
mount --bind "$logs" var/log
mkdir -p var/log/pods var/log/containers
mount --bind "$programs/bin" opt/bin
mount -o remount,bind,ro opt/bin
# Copies: whoever installs plugins writes there.
cp -n "$programs"/cni/* opt/cni/bin/

# The kubelet sets these when they differ. They are the machine's, not the node's: it gets files that hold its values already.
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  key=${pair%=*}
  echo "${pair#*=}" >"var/lib/sysctl/${key//\//.}"
  mount --bind "var/lib/sysctl/${key//\//.}" "proc/sys/$key"
done
# These are the node's own, as kubeadm asks for them.
for key in net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/bridge/bridge-nf-call-iptables net/bridge/bridge-nf-call-ip6tables; do
  if [ -e "proc/sys/$key" ]; then echo 1 >"proc/sys/$key"; fi
done

pivot_root . old
cd /
umount -l /old
# Pods mount with propagation, and what they mount is seen by containerd.
mount --make-rshared /
ip link set lo up
export PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

# service NAME COMMAND...: started again whenever it ends
service() {
  local unit=$1
  shift
  while true; do
    "$@" >>"/var/log/$unit.log" 2>&1 </dev/null &
    echo $! >"/run/$unit.pid"
    wait $! || true
    sleep 0.5
  done
}

# Before NetworkManager, which connects to it.
if [ -n "$ovs" ]; then
  mkdir -p /run/openvswitch /var/log/openvswitch /var/lib/openvswitch
  ovsdb-tool create /var/lib/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
  socket=/run/openvswitch/db.sock
  service ovsdb ovsdb-server /var/lib/openvswitch/conf.db --remote=punix:$socket &
  until [ -S $socket ]; do sleep 0.02; done
  ovs-vsctl --no-wait init
  # Debian has several of them, of which an installation would choose this one.
  PATH=$PATH:/usr/lib/openvswitch-switch service vswitchd ovs-vswitchd unix:$socket &
fi
if [ -n "$gateways" ]; then
  # D-Bus runs as this user, which the installation of its package would make.
  if ! grep -q ^messagebus: /etc/passwd; then
    echo "messagebus:x:64998:64998::/nonexistent:/usr/sbin/nologin" >>/etc/passwd
    echo "messagebus:x:64998:" >>/etc/group
  fi
  mkdir -p /run/dbus /run/NetworkManager /var/lib/NetworkManager /etc/NetworkManager/conf.d /etc/NetworkManager/system-connections
  # The machine's own have no place here.
  rm -rf /usr/lib/NetworkManager/conf.d /usr/lib/NetworkManager/system-connections
  # It leaves pods and their networks alone, as the documentation of container runtimes has it.
  cat >/etc/NetworkManager/NetworkManager.conf <<END
[main]
plugins=keyfile
auth-polkit=false
dns=none
hostname-mode=none
no-auto-default=*

[connectivity]
enabled=false

[keyfile]
unmanaged-devices=interface-name:veth*,interface-name:cni*,interface-name:flannel*
END
  {
    printf '[connection]\nid=eth0\nuuid=%s\ntype=ethernet\ninterface-name=eth0\n\n' "$(cat /proc/sys/kernel/random/uuid)"
    printf '[ipv4]\nmethod=manual\naddress1=%s/24,%s\n\n[ipv6]\n' "${addresses%%,*}" "${gateways%%,*}"
    case $gateways in
    *,*) printf 'method=manual\naddress1=%s/64,%s\n' "${addresses#*,}" "${gateways#*,}" ;;
    *) printf 'method=disabled\n' ;;
    esac
  } >/etc/NetworkManager/system-connections/eth0.nmconnection
  chmod 600 /etc/NetworkManager/system-connections/eth0.nmconnection
  service dbus dbus-daemon --system --nofork --nopidfile --nosyslog &
  until [ -S /run/dbus/system_bus_socket ]; do sleep 0.02; done
  # Read-only, it takes /sys for that of a container, where there is no udev to wait for. It sets options of bridges in the devices' own folder.
  # shellcheck disable=SC2016
  service NetworkManager unshare --mount -- sh -c 'mount --bind /sys/devices/virtual/net /sys/devices/virtual/net &&
    mount -o remount,bind,ro /sys && exec NetworkManager --debug' &
fi

# The lab plugs in the network. The default route comes last.
until ip route show default | grep -q .; do sleep 0.02; done

service containerd containerd --config /etc/containerd/config.toml &
until ctr version >/dev/null 2>&1; do sleep 0.02; done
mkdir -p /etc/kubernetes/kubelet.conf.d
service kubelet kubelet --config=/var/lib/kubelet/config.yaml --config-dir=/etc/kubernetes/kubelet.conf.d --kubeconfig=/etc/kubernetes/kubelet.conf \
  --hostname-override="$name" --node-ip="$addresses" &
# Only its services are waited for; orphans are reaped by the shell itself.
wait
