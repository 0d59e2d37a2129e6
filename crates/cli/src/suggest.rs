//! Guesses the word that a user meant.

/// The closest of the known words, if one is close enough to be a likely slip: at most a third of
/// its letters differ, the case of letters and the signs between words not counted.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| {
        text.chars()
            .filter(|c| !matches!(c, '-' | '_' | '.' | ' '))
            .collect::<String>()
            .to_lowercase()
    };
    let wanted = plain(word);
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&wanted, &plain(candidate)),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = [
            "multus",
            "multusDynamicNetworks",
            "linuxBridge",
            "ovs",
            "kubeMacPool",
            "imagePullPolicy",
        ];
        for (word, meant) in [
            ("mutlus", Some("multus")),
            ("Multus", Some("multus")),
            ("linux-bridge", Some("linuxBridge")),
            ("linuxbridge", Some("linuxBridge")),
            ("linuxBrigde", Some("linuxBridge")),
            ("kubemacpool", Some("kubeMacPool")),
            ("kubeMacPol", Some("kubeMacPool")),
            ("OVS", Some("ovs")),
            ("ovn", Some("ovs")),
            ("imagePolicy", Some("imagePullPolicy")),
            ("replicas", None),
            ("sriov", None),
        ] {
            assert_eq!(did_you_mean(word, known), meant, "{word}");
        }
    }
}
