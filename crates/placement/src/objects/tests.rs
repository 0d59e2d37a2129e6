#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_plan::kinds;

use super::*;
use crate::{
    Credentials, Database, KeystoneEndpoints, Network,
    ini::tests::{HAZARDS, read as option},
    networks::NETWORKS,
};

#[path = "../../../operands/src/tests/needs.rs"]
mod needs;

pub fn config(spec: &Value) -> Config {
    let mut whole = json!({"databaseInstance": "openstack", "secret": "osp-secret"});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let resource = json!({
        "metadata": {"name": "placement", "namespace": "cloud", "uid": "1-2"}, "spec": whole
    });
    Config::of(&serde_json::from_value(resource).unwrap()).unwrap()
}

fn inputs() -> Inputs {
    let database = Database::Parts {
        host: "openstack.cloud.svc".into(),
        port: None,
        name: "placement".into(),
        user: "placement_1a2b".into(),
        password: "0123456789abcdef".into(),
    };
    let endpoints = KeystoneEndpoints {
        public: "http://keystone-public.cloud.svc:5000".into(),
        internal: "http://keystone-internal.cloud.svc:5000".into(),
        region: None,
    };
    Inputs {
        default_image: "registry.example/placement:1".into(),
        database,
        database_tls: false,
        keystone: Some((endpoints, Credentials::Password("12345678".into()))),
        mounted: BTreeMap::new(),
        networks: vec![],
        topology: None,
    }
}

fn file(config: &Config, inputs: &Inputs, name: &str) -> String {
    let secret = config_data(config, inputs).unwrap();
    String::from_utf8(
        STANDARD
            .decode(secret.body()["data"][name].as_str().unwrap())
            .unwrap(),
    )
    .unwrap()
}

fn everything(config: &Config, inputs: &Inputs) -> Vec<Manifest> {
    on_a_cluster(false, config, inputs)
}

fn on_a_cluster(openshift: bool, config: &Config, inputs: &Inputs) -> Vec<Manifest> {
    let mut objects = access(config, openshift).unwrap();
    objects.push(config_data(config, inputs).unwrap());
    objects.extend(services(config).unwrap());
    objects.extend([
        preparation(config, inputs).unwrap(),
        deployment(config, inputs).unwrap(),
    ]);
    objects
}

fn pod(object: &Manifest) -> &Value {
    &object.body()["spec"]["template"]["spec"]
}

/// The table is complete: what is not in it is not in the container.
#[test]
fn each_program_is_given_what_it_needs() {
    let (config, inputs) = (config(&json!({})), inputs());
    needs::assert_given(
        everything(&config, &inputs).iter().map(Manifest::body),
        vec![
            (
                "placement-db-sync/placement-db-sync",
                json!({"drops": ["ALL"], "noEscalation": true, "nonRoot": true, "readable": ["/etc/placement/placement.conf", "/etc/placement/placement.conf.d/custom.conf", "/etc/my.cnf"], "run": ["/bin/sh", "-c", r#"read -r line <"$(command -v placement-manage)" && exec ${line#??} -c "$0" db sync"#, "script"], "user": 42482}),
            ),
            (
                "placement-db-sync/placement-online-migrations",
                json!({
                    "drops": ["ALL"], "noEscalation": true, "nonRoot": true,
                    "readable": [
                        "/etc/placement/placement.conf",
                        "/etc/placement/placement.conf.d/custom.conf", "/etc/my.cnf"
                    ],
                    "run": ["placement-manage", "db", "online_data_migrations"], "user": 42482
                }),
            ),
            (
                "placement-db-sync/placement-upgrade-check",
                json!({
                    "drops": ["ALL"], "noEscalation": true, "nonRoot": true,
                    "readable": [
                        "/etc/placement/placement.conf",
                        "/etc/placement/placement.conf.d/custom.conf", "/etc/my.cnf"
                    ],
                    "run": ["/bin/sh", "-c", "placement-status upgrade check || test $? -eq 1"],
                    "user": 42482
                }),
            ),
            (
                "placement/placement-api",
                json!({
                    "drops": ["ALL"], "env": ["CONFIG_HASH"],
                    "livenessProbe": {
                        "failureThreshold": 10,
                        "httpGet": {"path": "/", "port": 8778, "scheme": "HTTP"},
                        "initialDelaySeconds": 5, "periodSeconds": 30, "timeoutSeconds": 30
                    },
                    "noEscalation": true, "nonRoot": true, "ports": {"-": 8778},
                    "readable": [
                        "/var/lib/openstack/config", "/etc/placement/placement.conf",
                        "/etc/placement/placement.conf.d/custom.conf", "/etc/my.cnf",
                        "/etc/httpd/conf/httpd.conf", "/etc/httpd/conf.d/ssl.conf"
                    ],
                    "readinessProbe": {
                        "failureThreshold": 3,
                        "httpGet": {"path": "/", "port": 8778, "scheme": "HTTP"},
                        "initialDelaySeconds": 5, "periodSeconds": 18, "timeoutSeconds": 18
                    },
                    "run": ["/usr/sbin/httpd", "-DFOREGROUND"], "user": 42482
                }),
            ),
        ],
    );
}

#[test]
fn names_and_labels_are_those_of_placement_operator() {
    let config = config(&json!({}));
    let objects = on_a_cluster(true, &config, &inputs());
    let names: Vec<_> = objects
        .iter()
        .map(|object| format!("{} {}", object.key().kind.kind, object.key().name))
        .collect();
    let (job, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("Job"));
    assert_eq!(
        others,
        [
            "ServiceAccount placement-placement",
            "Role placement-placement-role",
            "RoleBinding placement-placement-rolebinding",
            "Secret placement-config-data",
            "Service placement-internal",
            "Service placement-public",
            "Deployment placement"
        ]
    );
    assert_eq!(job, ["Job placement-db-sync"]);
    let labels = json!({"service": "placement", "owner": "placement"});
    let deployment = objects.last().unwrap().body();
    assert_eq!(
        (
            &deployment["spec"]["selector"]["matchLabels"],
            &deployment["spec"]["template"]["metadata"]["labels"]
        ),
        (&labels, &labels)
    );
    for object in &objects {
        assert_eq!(
            object.key().namespace.as_deref(),
            Some("cloud"),
            "{}",
            object.key().human()
        );
        if object.key().kind == kinds::SECRET {
            let expected = json!({
                "placement.openstack.org/uid": "1-2", "placement.openstack.org/namespace": "cloud",
                "placement.openstack.org/name": "placement"
            });
            assert_eq!(object.body()["metadata"]["labels"], expected);
        } else {
            assert_eq!(
                object.body()["metadata"]["labels"]["owner"],
                "placement",
                "{}",
                object.key().human()
            );
        }
    }
    let binding = objects
        .iter()
        .find(|object| object.key().kind == kinds::ROLE_BINDING)
        .unwrap()
        .body();
    assert_eq!(
        (
            &binding["roleRef"]["name"],
            &binding["subjects"][0]["name"],
            &binding["subjects"][0]["namespace"]
        ),
        (
            &json!("placement-placement-role"),
            &json!("placement-placement"),
            &json!("cloud")
        )
    );
    // On a plain cluster, no role exists.
    assert!(
        everything(&config, &inputs())
            .iter()
            .all(|object| ![kinds::ROLE, kinds::ROLE_BINDING].contains(&object.key().kind))
    );
}

/// Pods satisfy the level `restricted` of the Pod Security Standards, and have no token.
#[test]
fn pods_are_restricted_and_have_no_token() {
    for object in [
        preparation(&config(&json!({})), &inputs()).unwrap(),
        deployment(&config(&json!({})), &inputs()).unwrap(),
    ] {
        let pod = pod(&object);
        assert_eq!(
            (
                &pod["automountServiceAccountToken"],
                &pod["serviceAccountName"]
            ),
            (&json!(false), &json!("placement-placement"))
        );
        let context = &pod["securityContext"];
        assert_eq!(
            (
                &context["runAsNonRoot"],
                &context["runAsUser"],
                &context["seccompProfile"]["type"]
            ),
            (&json!(true), &json!(42482), &json!("RuntimeDefault"))
        );
        let containers: Vec<_> = ["initContainers", "containers"]
            .iter()
            .filter_map(|list| pod[*list].as_array())
            .flatten()
            .collect();
        assert!(!containers.is_empty());
        for container in containers {
            let context = &container["securityContext"];
            assert_eq!(
                (
                    &context["allowPrivilegeEscalation"],
                    &context["capabilities"]
                ),
                (&json!(false), &json!({"drop": ["ALL"]}))
            );
            assert_eq!(container["image"], "registry.example/placement:1");
        }
    }
}

#[test]
fn the_probes_follow_the_timeout_and_what_is_changed() {
    let of =
        |spec: Value| pod(&deployment(&config(&spec), &inputs()).unwrap())["containers"][0].clone();
    let usual = of(json!({}));
    let get = json!({"path": "/", "port": 8778, "scheme": "HTTP"});
    assert_eq!(
        usual["livenessProbe"],
        json!({
            "httpGet": get, "initialDelaySeconds": 5, "timeoutSeconds": 30, "periodSeconds": 30,
            "failureThreshold": 10
        })
    );
    assert_eq!(
        usual["readinessProbe"],
        json!({
            "httpGet": get, "initialDelaySeconds": 5, "timeoutSeconds": 18, "periodSeconds": 18,
            "failureThreshold": 3
        })
    );
    assert!(usual.get("startupProbe").is_none());
    let changed = of(json!({"apiTimeout": 100, "override": {
            "probes": {
                "livenessProbes": {"path": "/x", "periodSeconds": 7},
                "readinessProbes": {"type": "Exec", "command": ["a"]},
                "startupProbes": {"failureThreshold": 99}
            }
        },
        "tls": {"api": {"internal": {"secretName": "i"}, "public": {"secretName": "p"}}}}));
    assert_eq!(
        (
            &changed["livenessProbe"]["httpGet"],
            &changed["livenessProbe"]["periodSeconds"],
            &changed["livenessProbe"]["timeoutSeconds"]
        ),
        (
            &json!({"path": "/x", "port": 8778, "scheme": "HTTPS"}),
            &json!(7),
            &json!(50)
        )
    );
    assert_eq!(
        (
            &changed["readinessProbe"]["exec"]["command"],
            changed["readinessProbe"].get("httpGet")
        ),
        (&json!(["a"]), None)
    );
    assert_eq!(changed["startupProbe"]["failureThreshold"], 99);
}

#[test]
fn the_configuration_has_what_placement_operator_writes() {
    let config = config(&json!({
        "customServiceConfig": "[DEFAULT]\ndebug = true\n",
        "defaultConfigOverwrite": {"policy.yaml": "a: b\n"}
    }));
    let (conf, inputs) = (file(&config, &inputs(), "placement.conf"), inputs());
    let read = |section: &str, name: &str| option(&conf, section, name);
    for (section, name, value) in [
        (
            "placement_database",
            "connection",
            "mysql+pymysql://placement_1a2b:0123456789abcdef@openstack.cloud.svc/placement?read_default_file=/etc/my.cnf",
        ),
        ("api", "auth_strategy", "keystone"),
        (
            "keystone_authtoken",
            "www_authenticate_uri",
            "http://keystone-public.cloud.svc:5000",
        ),
        (
            "keystone_authtoken",
            "auth_url",
            "http://keystone-internal.cloud.svc:5000",
        ),
        ("keystone_authtoken", "auth_type", "password"),
        ("keystone_authtoken", "username", "placement"),
        ("keystone_authtoken", "password", "12345678"),
        ("keystone_authtoken", "project_name", "service"),
        ("keystone_authtoken", "service_type", "placement"),
        ("oslo_policy", "policy_file", "/etc/placement/policy.yaml"),
    ] {
        assert_eq!(
            read(section, name).as_deref(),
            Some(value),
            "{section} {name}:\n{conf}"
        );
    }
    assert_eq!(read("keystone_authtoken", "region_name"), None);
    assert_eq!(
        file(&config, &inputs, "custom.conf"),
        "[DEFAULT]\ndebug = true\n"
    );
    assert_eq!(file(&config, &inputs, "policy.yaml"), "a: b\n");
    assert_eq!(file(&config, &inputs, "my.cnf"), "[client]\nssl=0\n");
    let httpd = file(&config, &inputs, "httpd.conf");
    assert!(
        httpd.contains("\nTimeOut 60\n")
            && httpd.contains("ServerName placement-public.cloud.svc")
            && !httpd.contains("SSL"),
        "{httpd}"
    );
    let mounts =
        pod(&deployment(&config, &inputs).unwrap())["containers"][0]["volumeMounts"].to_string();
    assert!(mounts.contains("/etc/placement/policy.yaml"), "{mounts}");
}

#[test]
fn an_application_credential_takes_the_place_of_the_password() {
    let mut inputs = inputs();
    inputs.keystone.as_mut().unwrap().1 = Credentials::Application {
        id: "an-id".into(),
        secret: "a$b".into(),
    };
    inputs.keystone.as_mut().unwrap().0.region = Some("RegionOne".into());
    let conf = file(
        &config(&json!({"auth": {"applicationCredentialSecret": "ac"}})),
        &inputs,
        "placement.conf",
    );
    let read = |name: &str| option(&conf, "keystone_authtoken", name);
    assert_eq!(
        (
            read("auth_type").as_deref(),
            read("application_credential_secret").as_deref(),
            read("region_name").as_deref()
        ),
        (
            Some("v3applicationcredential"),
            Some("a$b"),
            Some("RegionOne")
        )
    );
    assert_eq!(
        (read("username"), read("password"), read("project_name")),
        (None, None, None)
    );
}

#[test]
fn without_keystone_nobody_is_asked() {
    let conf = file(
        &config(&json!({"auth": {"strategy": "noauth2"}})),
        &Inputs {
            keystone: None,
            ..inputs()
        },
        "placement.conf",
    );
    assert_eq!(
        option(&conf, "api", "auth_strategy").as_deref(),
        Some("noauth2")
    );
    assert!(!conf.contains("keystone_authtoken"), "{conf}");
}

#[test]
fn certificates_are_mounted_where_apache_reads_them() {
    let config = config(&json!({
        "tls": {
            "api": {"internal": {"secretName": "i"}, "public": {"secretName": "p"}},
            "caBundleSecretName": "bundle"
        }
    }));
    let inputs = Inputs {
        database_tls: true,
        ..inputs()
    };
    let deployment = deployment(&config, &inputs).unwrap();
    let container = &pod(&deployment)["containers"][0];
    let mounted = |path: &str| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts
            .iter()
            .find(|mount| mount["mountPath"] == path)
            .unwrap_or_else(|| panic!("{path}"));
        let volumes = pod(&deployment)["volumes"].as_array().unwrap();
        let volume = volumes
            .iter()
            .find(|volume| volume["name"] == mount["name"])
            .unwrap();
        (
            volume["secret"]["secretName"].as_str().unwrap().to_owned(),
            mount["subPath"].as_str().unwrap().to_owned(),
        )
    };
    let httpd = file(&config, &inputs, "httpd.conf");
    for (endpoint, secret) in [("internal", "i"), ("public", "p")] {
        for (path, key) in [
            (format!("/etc/pki/tls/certs/{endpoint}.crt"), "tls.crt"),
            (format!("/etc/pki/tls/private/{endpoint}.key"), "tls.key"),
        ] {
            assert!(httpd.contains(&path), "{httpd}");
            assert_eq!(mounted(&path), (secret.to_owned(), key.to_owned()));
        }
    }
    assert_eq!(
        mounted(crate::files::CA_BUNDLE),
        ("bundle".to_owned(), "tls-ca-bundle.pem".to_owned())
    );
    assert_eq!(
        file(&config, &inputs, "my.cnf"),
        "[client]\nssl-ca=/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem\nssl=1\n"
    );
    assert_eq!(
        config.endpoint_url("public"),
        "https://placement-public.cloud.svc:8778"
    );
}

#[test]
fn a_service_has_what_is_given_and_no_more() {
    let service =
        |spec: Value, endpoint: usize| services(&config(&spec)).unwrap()[endpoint].body().clone();
    let internal = service(json!({}), 0);
    assert_eq!(
        internal["spec"],
        json!({
            "type": "ClusterIP", "selector": {"service": "placement", "owner": "placement"},
            "ports": [{"name": "placement-internal", "port": 8778, "protocol": "TCP"}]
        })
    );
    assert_eq!(
        internal["metadata"]["annotations"],
        json!({"endpoint": "internal", "core.openstack.org/ingress_create": "false"})
    );
    assert_eq!(
        service(json!({}), 1)["metadata"]["annotations"]["core.openstack.org/ingress_create"],
        "true"
    );

    let annotations =
        json!({"metallb.universe.tf/address-pool": "osp-internalapi", "endpoint": "mine"});
    let spec = json!({
        "type": "LoadBalancer", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}},
        "loadBalancerSourceRanges": ["192.0.2.0/24"]
    });
    let change = json!({
        "override": {
            "service": {
                "internal": {
                    "metadata": {"annotations": annotations, "labels": {"a": "b"}}, "spec": spec,
                    "endpointURL": "http://a:1/"
                }
            }
        }
    });
    let changed = service(change.clone(), 0);
    assert_eq!(
        changed["metadata"]["annotations"],
        json!({
            "metallb.universe.tf/address-pool": "osp-internalapi", "endpoint": "mine",
            "core.openstack.org/ingress_create": "false",
            "dnsmasq.network.openstack.org/hostname": "placement-internal.cloud.svc"
        })
    );
    assert_eq!(
        (
            &changed["spec"]["type"],
            &changed["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"],
            &changed["metadata"]["labels"]["a"]
        ),
        (&json!("LoadBalancer"), &json!(5), &json!("b"))
    );
    let config = config(&change);
    assert_eq!(
        (
            config.endpoint_url("internal"),
            config.endpoint_url("public")
        ),
        (
            "http://a:1/".to_owned(),
            "http://placement-public.cloud.svc:8778".to_owned()
        )
    );
}

#[test]
fn networks_are_asked_of_multus() {
    let networks = vec![
        Network {
            name: "storage".into(),
            gateway: None,
        },
        Network {
            name: "a-network-with-a-long-name".into(),
            gateway: Some("172.18.0.1".into()),
        },
    ];
    let with = Inputs {
        networks,
        ..inputs()
    };
    for (inputs, expected) in [
        (inputs(), json!([])),
        (
            with,
            json!([
                {"name": "storage", "namespace": "cloud", "interface": "storage"},
                {
                    "name": "a-network-with-a-long-name", "namespace": "cloud",
                    "interface": "a-network-with-", "default-route": ["172.18.0.1"]
                }
            ]),
        ),
    ] {
        for object in [
            preparation(&config(&json!({})), &inputs).unwrap(),
            deployment(&config(&json!({})), &inputs).unwrap(),
        ] {
            let annotation = object.body()["spec"]["template"]["metadata"]["annotations"][NETWORKS]
                .as_str()
                .unwrap();
            assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), expected);
        }
    }
}

#[test]
fn a_topology_takes_the_place_of_the_usual_affinity() {
    let usual = deployment(&config(&json!({})), &inputs()).unwrap();
    assert!(pod(&usual)["affinity"]["podAntiAffinity"].is_object());
    let constraint =
        json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    let placed = deployment(
        &config(&json!({})),
        &Inputs {
            topology: Some(json!({"topologySpreadConstraints": [constraint]})),
            ..inputs()
        },
    )
    .unwrap();
    assert!(pod(&placed).get("affinity").is_none());
    assert_eq!(
        pod(&placed)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        json!({"service": "placement", "owner": "placement"})
    );
}

/// The hash of the Job is what it does, and to which database.
#[test]
fn another_image_or_database_is_another_job_and_another_password_is_none() {
    let hash = |spec: Value, inputs: &Inputs| {
        preparation(&config(&spec), inputs).unwrap().body()["metadata"]["annotations"][JOB_HASH]
            .clone()
    };
    let usual = hash(json!({}), &inputs());
    let moved = |host: &str, password: &str| {
        let database = Database::Parts {
            host: host.into(),
            port: None,
            name: "placement".into(),
            user: "placement_1a2b".into(),
            password: password.into(),
        };
        Inputs {
            database,
            ..inputs()
        }
    };
    assert_eq!(
        hash(json!({}), &moved("openstack.cloud.svc", "another")),
        usual
    );
    assert_eq!(
        hash(
            json!({"replicas": 3, "apiTimeout": 90, "preserveJobs": true}),
            &inputs()
        ),
        usual
    );
    assert_ne!(
        hash(json!({}), &moved("elsewhere.cloud.svc", "0123456789abcdef")),
        usual
    );
    assert_ne!(
        hash(
            json!({"containerImage": "registry.example/placement:2"}),
            &inputs()
        ),
        usual
    );
    let limits = json!({"resources": {"limits": {"memory": "1Gi"}}});
    assert_eq!(hash(limits.clone(), &inputs()), usual, "it does the same");
    let limited = preparation(&config(&limits), &inputs()).unwrap();
    for list in ["initContainers", "containers"] {
        assert!(
            pod(&limited)[list]
                .as_array()
                .unwrap()
                .iter()
                .all(|container| container["resources"] == limits["resources"]),
            "{list}"
        );
    }
    let job = preparation(&config(&json!({"preserveJobs": true})), &inputs()).unwrap();
    assert!(job.body()["spec"].get("ttlSecondsAfterFinished").is_none());
}

/// A change of anything that the pods read replaces them. Other changes do not.
#[test]
fn the_pods_are_replaced_when_what_they_read_changes() {
    let hash = |spec: Value, inputs: &Inputs| {
        let deployment = deployment(&config(&spec), inputs).unwrap();
        pod(&deployment)["containers"][0]["env"][0].clone()
    };
    let usual = hash(json!({}), &inputs());
    assert_eq!(usual["name"], CONFIG_HASH);
    let mut rotated = inputs();
    rotated.keystone.as_mut().unwrap().1 = Credentials::Password("another".into());
    assert_ne!(hash(json!({}), &rotated), usual);
    assert_ne!(
        hash(json!({"customServiceConfig": "[a]\nb = c"}), &inputs()),
        usual
    );
    assert_ne!(
        hash(
            json!({}),
            &Inputs {
                mounted: [("bundle".to_owned(), "1".to_owned())].into(),
                ..inputs()
            }
        ),
        usual
    );
    assert_eq!(hash(json!({"replicas": 2}), &inputs()), usual);
}

fn passwords_come_back(password: &str) {
    let mut inputs = inputs();
    inputs.keystone.as_mut().unwrap().1 = Credentials::Password(password.to_owned());
    if let Database::Parts {
        password: of_database,
        ..
    } = &mut inputs.database
    {
        password.clone_into(of_database);
    }
    let conf = file(&config(&json!({})), &inputs, "placement.conf");
    assert_eq!(
        option(&conf, "keystone_authtoken", "password").as_deref(),
        Some(password),
        "{conf}"
    );
    assert_eq!(
        option(&conf, "placement_database", "connection"),
        Some(inputs.database.url().unwrap()),
        "{conf}"
    );
    assert_eq!(crate::ini::complaint(&conf), None);
}

#[test]
fn every_hazardous_password_comes_back_from_the_file() {
    HAZARDS
        .iter()
        .for_each(|password| passwords_come_back(password));
}

proptest! {
    #[test]
    fn any_password_comes_back_from_the_file(password in "\\PC*") {
        passwords_come_back(&password);
    }
}

#[test]
fn a_password_with_a_line_break_is_refused_and_named() {
    let mut inputs = inputs();
    inputs.keystone.as_mut().unwrap().1 = Credentials::Password("a\n".into());
    let error = config_data(&config(&json!({})), &inputs)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("key PlacementPassword of Secret osp-secret has the control character"),
        "{error}"
    );
}
