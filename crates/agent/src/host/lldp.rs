//! Facts that neighbors announce by LLDP and nmstate leaves out: NetworkManager has the frame.

use std::collections::BTreeSet;

use zbus::Connection;

use super::device::{self, NetworkManagerProxy};

/// Returns those of the interfaces that have a neighbor whose port is part of an aggregation. An
/// interface that NetworkManager does not know any more has none.
pub async fn aggregated(bus: &Connection, names: &[String]) -> zbus::Result<BTreeSet<String>> {
    let manager = NetworkManagerProxy::new(bus).await?;
    let mut found = BTreeSet::new();
    for name in names {
        let Some(device) = device::find(bus, &manager, name).await? else {
            continue;
        };
        // A device may go after it was found.
        let neighbors = device.lldp_neighbors().await.unwrap_or_default();
        let mut frames = neighbors
            .into_iter()
            .filter_map(|mut neighbor| Vec::<u8>::try_from(neighbor.remove("raw")?).ok());
        if frames.any(|frame| is_aggregated(&frame)) {
            found.insert(name.clone());
        }
    }
    Ok(found)
}

/// The length of an Ethernet header: two addresses and the type.
const HEADER: usize = 14;
/// The organizations and subtypes of the TLV Link Aggregation: 802.1AX, annex F, and the older one
/// of 802.3. Both have the status in the next byte.
const LINK_AGGREGATION: [[u8; 4]; 2] = [[0x00, 0x80, 0xc2, 7], [0x00, 0x12, 0x0f, 3]];
/// The bit of the status that says that the port is part of an aggregation.
const ENABLED: u8 = 0b10;

/// Reports whether a frame of LLDP says that its port is part of an aggregation.
fn is_aggregated(frame: &[u8]) -> bool {
    let mut rest = frame.get(HEADER..).unwrap_or_default();
    // 802.1AB, 8.4: seven bits of type, nine bits of length.
    while let [first, second, following @ ..] = rest {
        let length = usize::from(first & 1) << 8 | usize::from(*second);
        let Some((value, next)) = following.split_at_checked(length) else {
            return false;
        };
        match first >> 1 {
            0 => return false,
            127 => {
                if let [a, b, c, subtype, status, ..] = value
                    && LINK_AGGREGATION.contains(&[*a, *b, *c, *subtype])
                    && status & ENABLED != 0
                {
                    return true;
                }
            }
            _ => {}
        }
        rest = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tlvs: &[(u8, &[u8])]) -> Vec<u8> {
        let mut frame = vec![0; HEADER];
        for (kind, value) in tlvs {
            frame.extend([kind << 1, value.len() as u8]);
            frame.extend(*value);
        }
        frame
    }

    #[test]
    fn the_status_of_an_aggregation_is_read_from_the_frame() {
        let chassis: (u8, &[u8]) = (1, &[4, 0, 0, 0x5e, 0, 0x53, 1]);
        for (expected, value) in [
            // Capable and enabled, capable only; each in the form of 802.3 and of 802.1.
            (true, [0x00, 0x12, 0x0f, 3, 0b11, 0, 0, 0, 7]),
            (false, [0x00, 0x12, 0x0f, 3, 0b01, 0, 0, 0, 0]),
            (true, [0x00, 0x80, 0xc2, 7, 0b11, 0, 0, 0, 7]),
            (false, [0x00, 0x80, 0xc2, 7, 0b01, 0, 0, 0, 0]),
            // Another TLV: MAC/PHY configuration.
            (false, [0x00, 0x12, 0x0f, 1, 0b11, 0, 0, 0, 7]),
        ] {
            assert_eq!(
                is_aggregated(&frame(&[chassis, (127, &value), (0, &[])])),
                expected
            );
        }
    }

    #[test]
    fn a_frame_that_is_cut_off_says_nothing() {
        let whole = frame(&[(127, &[0x00, 0x12, 0x0f, 3, 0b11, 0, 0, 0, 7])]);
        assert!(is_aggregated(&whole));
        for length in 0..whole.len() {
            assert!(!is_aggregated(&whole[..length]), "{length}");
        }
        let ended = frame(&[(0, &[]), (127, &[0x00, 0x12, 0x0f, 3, 0b11, 0, 0, 0, 7])]);
        assert!(!is_aggregated(&ended));
    }
}
