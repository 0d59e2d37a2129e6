// Prints the objects that cluster-network-addons-operator makes for a full configuration on a cluster that is not OpenShift: the templates of its module,
// rendered as its operator renders them. Images come from the operator's variables. The configuration comes from PLACEMENT (as JSON, for both halves),
// TLS_MIN_VERSION and TLS_CIPHERS (Go's names, as the KubeVirt IPAM controller gets them).
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Template fields by the variable of the operator that sets them.
var images = map[string]string{
	"MultusImage":                          "MULTUS_IMAGE",
	"MultusDynamicNetworksControllerImage": "MULTUS_DYNAMIC_NETWORKS_CONTROLLER_IMAGE",
	"LinuxBridgeImage":                     "LINUX_BRIDGE_IMAGE",
	"LinuxBridgeMarkerImage":               "LINUX_BRIDGE_MARKER_IMAGE",
	"OvsCNIImage":                          "OVS_CNI_IMAGE",
	"MacvtapImage":                         "MACVTAP_CNI_IMAGE",
	"KubeMacPoolImage":                     "KUBEMACPOOL_IMAGE",
	"KubeSecondaryDNSImage":                "KUBE_SECONDARY_DNS_IMAGE",
	"CoreDNSImage":                         "CORE_DNS_IMAGE",
	"KubevirtIpamControllerImage":          "KUBEVIRT_IPAM_CONTROLLER_IMAGE",
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: cnao DATA")
	}
	var placement struct {
		Affinity     map[string]any    `json:"affinity"`
		NodeSelector map[string]string `json:"nodeSelector"`
		Tolerations  []any             `json:"tolerations"`
	}
	if err := json.Unmarshal([]byte(os.Getenv("PLACEMENT")), &placement); err != nil {
		log.Fatal("PLACEMENT: ", err)
	}
	data := map[string]any{
		"Namespace":                   "cluster-network-addons",
		"ImagePullPolicy":             "IfNotPresent",
		"Placement":                   placement,
		"EnableSCC":                   false,
		"IsOpenshift":                 false,
		"MonitoringAvailable":         false,
		"MonitoringNamespace":         "monitoring",
		"MonitoringServiceAccount":    "prometheus-k8s",
		"CNIConfigDir":                "/etc/cni/net.d",
		"CNIBinDir":                   "/opt/cni/bin",
		"CniMountPath":                "/opt/cni/bin",
		"RangeStart":                  "02:00:00:00:00:00",
		"RangeEnd":                    "02:00:00:ff:ff:ff",
		"RunAsNonRoot":                "true",
		"CARotateInterval":            "168h0m0s",
		"CAOverlapInterval":           "24h0m0s",
		"CertRotateInterval":          "24h0m0s",
		"CertOverlapInterval":         "8h0m0s",
		"TLSSecurityProfileCiphers":   os.Getenv("TLS_CIPHERS"),
		"TLSMinVersion":               os.Getenv("TLS_MIN_VERSION"),
		"DevicePluginConfigName":      "macvtap-deviceplugin-config",
		"HostCRISocketPath":           "/run/crio/crio.sock",
		"Domain":                      "",
		"NameServerIp":                "",
		"ClusterDNSNamespace":         "kube-system",
		"ClusterDNSPodsSelectorKey":   "k8s-app",
		"ClusterDNSPodsSelectorValue": "kube-dns",
		"ClusterDNSPort":              "53",
		"DefaultNetNADNs":             "",
		"CertDir":                     "",
		"MountPath":                   "/tmp/k8s-webhook-server/serving-certs",
		"SecretName":                  "webhook-server-cert",
		"WebhookAnnotation":           "cert-manager.io/inject-ca-from: cluster-network-addons/kubevirt-ipam-controller-serving-cert",
	}
	for field, variable := range images {
		data[field] = os.Getenv(variable)
	}
	functions := template.FuncMap{
		// JSON is YAML.
		"toYaml": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"nindent": func(_ int, text string) string { return text },
		"default": func(fallback, value string) string {
			if value == "" {
				return fallback
			}
			return value
		},
	}
	err := filepath.WalkDir(os.Args[1], func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := template.New(path).Option("missingkey=error").Funcs(functions).Parse(string(text))
		if err != nil {
			return err
		}
		data["RunAsUser"] = "107"
		if strings.Contains(path, "kube-secondary-dns") {
			data["RunAsUser"] = "1000"
		}
		fmt.Println("\n---")
		return parsed.Execute(os.Stdout, data)
	})
	if err != nil {
		log.Fatal(err)
	}
}
