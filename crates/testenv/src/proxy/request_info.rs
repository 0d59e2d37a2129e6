//! What a request asks for, from its method and path.

/// Does a request change something stored? Dry runs, and reviews of access and tokens, which are created but not stored,
/// do not.
pub fn is_write(verb: &str, group: &str, query: &str) -> bool {
    matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection")
        && !matches!(group, "authorization.k8s.io" | "authentication.k8s.io")
        && !query.split('&').any(|pair| pair.starts_with("dryRun="))
}
