# Run on a host: everything that was configured since its start goes.
rm -f /run/NetworkManager/system-connections/* /var/lib/NetworkManager/NetworkManager-intern.conf
find /etc/NetworkManager/system-connections -type f -delete
cp -a /mnt/eth0.nmconnection /etc/NetworkManager/system-connections/
nmcli general reload
nmcli connection reload
nmcli --wait 30 connection up eth0 >/dev/null
for device in $(ip -o link show | awk -F'[:@ ]+' '{ print $2 }'); do
  case $device in
    lo) ;;
    eth0) ip link set eth0 mtu 1500 ;;
    eth*) nmcli device disconnect "$device" >/dev/null 2>&1 || true; ip addr flush dev "$device"; ip link set "$device" nomaster mtu 1500 up ;;
    *) ip link delete "$device" 2>/dev/null || true ;;
  esac
done
ip rule list | awk -F: '$1 > 0 && $1 < 32766 { print $1 }' | while read -r priority; do ip rule delete priority "$priority"; done
if [ -S /run/openvswitch/db.sock ]; then
  for bridge in $(ovs-vsctl list-br); do ovs-vsctl del-br "$bridge"; done
  ovs-vsctl clear Open_vSwitch . external_ids
fi
