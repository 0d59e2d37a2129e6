//! The values that the API server fills in.

use serde_json::Value;

use crate::compare::is_at;

/// The values that the API server fills in (`SetDefaults` in
/// k8s.io/kubernetes/pkg/apis/*/v1/defaults.go). An original that writes by `update` owns them,
/// too, because the API server notes owners after it has filled them in.
const DEFAULTS: &[(&str, &str)] = &[
    ("terminationMessagePath", r#""/dev/termination-log""#),
    ("terminationMessagePolicy", r#""File""#),
    // By the tag of the image.
    ("imagePullPolicy", r#""IfNotPresent""#),
    ("imagePullPolicy", r#""Always""#),
    ("dnsPolicy", r#""ClusterFirst""#),
    ("restartPolicy", r#""Always""#),
    ("schedulerName", r#""default-scheduler""#),
    ("terminationGracePeriodSeconds", "30"),
    ("template.spec.securityContext", "{}"),
    ("resources", "{}"),
    ("protocol", r#""TCP""#),
    ("scheme", r#""HTTP""#),
    ("periodSeconds", "10"),
    ("successThreshold", "1"),
    ("failureThreshold", "3"),
    ("Probe.timeoutSeconds", "1"),
    ("].timeoutSeconds", "10"),
    ("fieldRef.apiVersion", r#""v1""#),
    ("defaultMode", "420"),
    ("hostPath.type", r#""""#),
    ("revisionHistoryLimit", "10"),
    ("progressDeadlineSeconds", "600"),
    ("spec.replicas", "1"),
    ("trategy.type", r#""RollingUpdate""#),
    ("strategy.rollingUpdate.maxSurge", r#""25%""#),
    ("strategy.rollingUpdate.maxUnavailable", r#""25%""#),
    ("updateStrategy.rollingUpdate.maxSurge", "0"),
    ("updateStrategy.rollingUpdate.maxUnavailable", "1"),
    ("sessionAffinity", r#""None""#),
    ("spec.type", r#""ClusterIP""#),
    ("internalTrafficPolicy", r#""Cluster""#),
    ("ipFamilyPolicy", r#""SingleStack""#),
    ("service.port", "443"),
    ("matchPolicy", r#""Equivalent""#),
    ("namespaceSelector", "{}"),
    ("objectSelector", "{}"),
    ("reinvocationPolicy", r#""Never""#),
    ("scope", r#""*""#),
    ("apiGroup", r#""rbac.authorization.k8s.io""#),
    ("conversion.strategy", r#""None""#),
];

/// Reports whether the API server fills in this value at this path.
pub(crate) fn is_default(path: &str, value: &Value) -> bool {
    match value {
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .all(|(key, value)| is_default(&format!("{path}.{key}"), value)),
        // The old name of serviceAccountName, which the API server keeps equal.
        _ if path.ends_with("template.spec.serviceAccount") => true,
        Value::Bool(false) => true,
        Value::Number(port) if path.ends_with("].targetPort") => {
            path.contains(&format!("[port={port},"))
        }
        _ => DEFAULTS.iter().any(|(field, default)| {
            is_at(path, field)
                && serde_json::from_str::<Value>(default).is_ok_and(|default| default == *value)
        }),
    }
}
