//! A real Kubernetes control plane on loopback for tests and for the demo, and faults between its clients and its API server.
