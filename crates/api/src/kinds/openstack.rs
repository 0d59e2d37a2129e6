//! Kinds of the operators for MariaDB, Keystone and Topology in OpenStack on Kubernetes.

super::kinds! {
    MARIADB_DATABASE = "mariadb.openstack.org", "v1beta1", "MariaDBDatabase", "mariadbdatabases", true;
    MARIADB_ACCOUNT = "mariadb.openstack.org", "v1beta1", "MariaDBAccount", "mariadbaccounts", true;
    KEYSTONE_API = "keystone.openstack.org", "v1beta1", "KeystoneAPI", "keystoneapis", true;
    KEYSTONE_SERVICE = "keystone.openstack.org", "v1beta1", "KeystoneService", "keystoneservices", true;
    KEYSTONE_ENDPOINT = "keystone.openstack.org", "v1beta1", "KeystoneEndpoint", "keystoneendpoints", true;
    TOPOLOGY = "topology.openstack.org", "v1beta1", "Topology", "topologies", true;
}
