module weir/tests/cluster/kinds

go 1.26.0

require (
	github.com/prometheus-operator/prometheus-operator v0.93.0
	sigs.k8s.io/gateway-api v1.4.1
)
