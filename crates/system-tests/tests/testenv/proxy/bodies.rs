//! Answers that are cut in the middle, or are not the API server's.

use crate::testenv::proxy::{
    watches::{next, watch},
    *,
};

#[tokio::test]
async fn bodies_go_wrong_as_told() {
    let Setup {
        direct,
        maps,
        proxy,
        // It ends when it is dropped.
        control_plane: _control_plane,
    } = setup().await;
    create(&direct, "there").await.unwrap();

    // Half an answer, and the API server has done what was asked for.
    for (framing, name) in [(Framing::Length, "length"), (Framing::Chunked, "chunked")] {
        let fault = proxy.inject(
            Match::any().resource("configmaps").times(2),
            Fault::HalfBody(framing),
        );
        let listed = maps.list(&ListParams::default()).await.unwrap_err();
        assert_eq!(code(&listed), None, "{listed}");
        // The head has come: the request was not just lost.
        assert!(
            !format!("{listed:?}").contains("SendRequest"),
            "{framing:?}: {listed:?}"
        );
        let created = create(&maps, name).await.unwrap_err();
        assert_eq!(code(&created), None, "{created}");
        assert!(direct.get_opt(name).await.unwrap().is_some());
        assert_eq!(fault.hits(), 2);
        maps.list(&ListParams::default()).await.unwrap();
    }

    // Answers of others, which the API server has not seen.
    for stranger in Stranger::ALL {
        let fault = proxy.inject(
            Match::any().resource("configmaps").times(2),
            Fault::Stranger(stranger),
        );
        match maps.list(&ListParams::default()).await {
            // Kube takes any list for the one that it has asked for.
            Ok(list) => assert_eq!((stranger, list.items.len()), (Stranger::EmptyList, 0)),
            Err(error) => {
                let expected = Some(stranger.code()).filter(|code| *code != 200);
                assert_eq!(code(&error), expected, "{stranger:?}: {error}");
                assert_ne!(stranger, Stranger::EmptyList);
            }
        }
        // (Kube takes some of these for a success.)
        let _ = maps.delete("there", &DeleteParams::default()).await;
        assert_eq!(fault.hits(), 2);
        assert!(direct.get_opt("there").await.unwrap().is_some());
    }

    // Lines of watches.
    let watches = Match::any().verb("watch").resource("configmaps").times(1);
    for (fault, seen) in [
        (Fault::GarbleEvents(Events::Added), "deserializing"),
        (Fault::SplitEvents(Events::Added), "deserializing"),
        // (Kube distinguishes a broken watch from one that ended only in its log.)
        (Fault::CutEvents(Events::Added), "end"),
    ] {
        let mut stream = watch(&maps).await;
        let injected = proxy.inject(watches.clone(), fault.clone());
        let name = format!("event-{}", proxy.requests().len());
        create(&direct, &name).await.unwrap();
        let first = next(&mut stream).await;
        assert!(first.contains(seen), "{fault:?}: {first}");
        assert_eq!(injected.hits(), 1);
        if matches!(fault, Fault::GarbleEvents(_)) {
            assert_eq!(next(&mut stream).await, format!("added {name}"));
        }
    }
}
