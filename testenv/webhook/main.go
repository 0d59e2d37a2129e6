// The admission webhooks of Kubernetes' own end-to-end tests, without the other subcommands of
// agnhost, whose modules are more than those of the control plane.
package main

import (
	"os"

	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

func main() {
	// It prints its error itself.
	if webhook.CmdWebhook.Execute() != nil {
		os.Exit(1)
	}
}
