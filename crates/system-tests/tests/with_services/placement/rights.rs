//! The rights of the containers: exactly those of their pods, and enough for all other tests.

use weft_placement::objects::{deployment, preparation};
use weft_testenv::services::Site;

use crate::with_services::placement::{HOST, config, inputs, keep, pod};

/// Prints user, groups, capabilities, the owner of the file with the passwords, and the right to
/// write to it.
const LOOK: &str = "id -u; id -G; grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs):' /proc/self/status
stat -c '%u %g %a' /etc/placement/placement.conf; echo >>/etc/placement/placement.conf || echo read-only";

#[tokio::test]
async fn containers_have_their_pods_rights_and_need_the_group_to_read() {
    let (config, inputs) = (config(), inputs());
    let site = Site::start(&[HOST]).unwrap();
    keep(&site, &config, &inputs);
    for object in [
        preparation(&config, &inputs).unwrap(),
        deployment(&config, &inputs).unwrap(),
    ] {
        let mut pod = pod(&object);
        let context = pod.security_context.clone().unwrap();
        let (user, group) = (context.run_as_user.unwrap(), context.fs_group.unwrap());
        assert!(user != 0 && group != 0);
        let none = "0000000000000000";
        for of_pod in pod.init_containers.iter().flatten().chain(&pod.containers) {
            let (container, _) = site.container(&pod, of_pod).unwrap();
            let said = site
                .output(&container, &["bash", "-c", LOOK])
                .await
                .unwrap();
            let words: Vec<_> = said.stdout.split_whitespace().collect();
            let expected = format!(
                "{user} {group} CapPrm: {none} CapEff: {none} CapBnd: {none} NoNewPrivs: 1 0 {group} 440 read-only"
            );
            assert_eq!(
                words.join(" "),
                expected,
                "{}: {}",
                of_pod.name,
                said.stderr
            );
        }

        pod.security_context.as_mut().unwrap().fs_group = None;
        let first = pod
            .init_containers
            .iter()
            .flatten()
            .chain(&pod.containers)
            .next()
            .unwrap();
        let (container, command) = site.container(&pod, first).unwrap();
        let said = site
            .output(
                &container,
                &command.iter().map(String::as_str).collect::<Vec<_>>(),
            )
            .await
            .unwrap();
        // In the words of Apache, and of oslo.config.
        let is_denied = ["Permission denied", "ConfigFilesPermissionDenied"]
            .iter()
            .any(|words| said.stderr.contains(words));
        assert!(
            !said.status.success() && is_denied,
            "{}: {said:?}",
            first.name
        );
    }
}
