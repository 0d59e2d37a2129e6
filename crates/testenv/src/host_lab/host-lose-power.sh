# Run on a host whose NetworkManager has ended, with the names of cards that stay: everything goes that a reboot takes from the kernel. NetworkManager finds
# its notes in /run as after a restart of its own, so those go, too.
rm -rf /run/NetworkManager/*
: >/etc/resolv.conf
for device in $(ip -o link show | awk -F'[:@ ]+' '{ print $2 }'); do
  case " lo $* " in
    *" $device "*) continue ;;
  esac
  case $device in
    eth[0-9]) ip addr flush dev "$device"; ip link set "$device" nomaster mtu 1500 down ;;
    # Some go with another one.
    *) ip link delete "$device" 2>/dev/null || true ;;
  esac
done
ip rule list | awk -F: '$1 > 0 && $1 < 32766 { print $1 }' | while read -r priority; do ip rule delete priority "$priority"; done
