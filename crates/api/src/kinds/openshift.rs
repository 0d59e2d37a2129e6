//! Kinds of OpenShift, which other clusters lack.

super::kinds! {
    OPENSHIFT_NETWORK = "operator.openshift.io", "v1", "Network", "networks", false;
    SECURITY_CONTEXT_CONSTRAINTS = "security.openshift.io", "v1", "SecurityContextConstraints", "securitycontextconstraints", false;
}
