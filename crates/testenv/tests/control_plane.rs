//! The control plane itself: it works, and it leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use weft_testenv::ControlPlane;

#[tokio::test]
async fn starts() {
    let t = std::time::Instant::now();
    let cp = ControlPlane::builder().nodes(3).audit(true).start().await.unwrap();
    eprintln!("start {:?}", t.elapsed());
    println!("{}", cp.kubectl(&["get", "nodes", "-o", "wide"]).await.unwrap());
    let t = std::time::Instant::now();
    drop(cp);
    eprintln!("stop {:?}", t.elapsed());
}
