module weft.network/testenv/definitions

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.18.2
	github.com/openshift/api v0.0.0-20251015095338-264e80a2b6e7
	github.com/prometheus-operator/prometheus-operator v0.83.0
)
