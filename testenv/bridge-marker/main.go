// Offers the bridges of its node to the scheduler, where the module of bridge-marker is not published: real nodes of tests and of `make cluster` run it in
// its place. It takes the same arguments, has the same rights, and writes the same resources: `bridge.network.kubevirt.io/NAME: 1k` in the capacity of its Node,
// one for each bridge of the host. It looks more often than bridge-marker, which waits for a minute. Like that, it leaves its resources
// on the Node when its pod goes.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// The files that the kubelet mounts into each container that talks to the API server.
	account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	prefix  = "bridge.network.kubevirt.io/"
	// Nothing limits the connections of a bridge, and a resource must have a number.
	amount   = "1k"
	interval = 2 * time.Second
	port     = ":8081"
)

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

// bridges lists the bridges of the host: each has this folder in sysfs.
func bridges() (map[string]bool, error) {
	folders, err := filepath.Glob("/sys/class/net/*/bridge")
	found := map[string]bool{}
	for _, folder := range folders {
		found[filepath.Base(filepath.Dir(folder))] = true
	}
	return found, err
}

// changes make the resources of a node those of these bridges.
func changes(capacity map[string]string, bridges map[string]bool) []operation {
	var all []operation
	// A slash in a key is written like this (RFC 6901).
	path := "/status/capacity/" + strings.ReplaceAll(prefix, "/", "~1")
	for resource := range capacity {
		name, ours := strings.CutPrefix(resource, prefix)
		if ours && !bridges[name] {
			all = append(all, operation{Op: "remove", Path: path + name})
		}
	}
	for name := range bridges {
		if _, there := capacity[prefix+name]; !there {
			all = append(all, operation{Op: "add", Path: path + name, Value: amount})
		}
	}
	return all
}

type node struct {
	url    string
	client *http.Client
}

func newNode(name string) (*node, error) {
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%sca.crt holds no certificate", account)
	}
	server := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &node{
		url:    "https://" + server + "/api/v1/nodes/" + url.PathEscape(name),
		client: &http.Client{Transport: transport, Timeout: 10 * time.Second},
	}, nil
}

// request sends a body, and returns the body of the answer.
func (n *node) request(method, url, contentType string, body []byte) ([]byte, error) {
	// The kubelet renews it.
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := n.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, text)
	}
	return text, err
}

func (n *node) mark(bridges map[string]bool) error {
	text, err := n.request(http.MethodGet, n.url, "", nil)
	if err != nil {
		return err
	}
	var object struct {
		Status struct {
			Capacity map[string]string `json:"capacity"`
		} `json:"status"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	patch := changes(object.Status.Capacity, bridges)
	if len(patch) == 0 {
		return nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	log.Printf("%s", body)
	_, err = n.request(http.MethodPatch, n.url+"/status", "application/json-patch+json", body)
	return err
}

// keep marks the bridges whenever they change, and again after a failure.
func (n *node) keep() {
	var marked map[string]bool
	for ; ; time.Sleep(interval) {
		found, err := bridges()
		if err == nil && (marked == nil || !maps.Equal(found, marked)) {
			if err = n.mark(found); err == nil {
				marked = found
			}
		}
		if err != nil {
			log.Print(err)
		}
	}
}

func main() {
	name := flag.String("node-name", "", "the node that this pod runs on")
	flag.Parse()
	if *name == "" {
		log.Fatal("-node-name is not set")
	}
	node, err := newNode(*name)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		http.HandleFunc("/healthz", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, "ok") })
		log.Fatal(http.ListenAndServe(port, nil))
	}()
	node.keep()
}
