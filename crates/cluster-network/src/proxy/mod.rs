//! The service proxy: kube-proxy, where the default network does not bring one.

/// An address with a port.
pub(crate) fn join(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
