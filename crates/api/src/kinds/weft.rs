//! Kinds that Weft serves.

super::kinds! {
    NETWORK_ADDONS_CONFIG = "networkaddonsoperator.network.kubevirt.io", "v1", "NetworkAddonsConfig", "networkaddonsconfigs", false;
    NETWORK_CONFIG = "networkoperator.openshift.io", "v1", "NetworkConfig", "networkconfigs", false;
    NODE_NETWORK_STATE = "nmstate.io", "v1beta1", "NodeNetworkState", "nodenetworkstates", false;
    NODE_NETWORK_CONFIGURATION_POLICY = "nmstate.io", "v1", "NodeNetworkConfigurationPolicy", "nodenetworkconfigurationpolicies", false;
    NODE_NETWORK_CONFIGURATION_ENACTMENT = "nmstate.io", "v1beta1", "NodeNetworkConfigurationEnactment", "nodenetworkconfigurationenactments", false;
    NMSTATE = "nmstate.io", "v1", "NMState", "nmstates", false;
    PLACEMENT_API = "placement.openstack.org", "v1beta1", "PlacementAPI", "placementapis", true;
}
