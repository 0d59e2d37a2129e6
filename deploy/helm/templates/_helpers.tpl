{{/* "repository@digest" or "repository:tag" of an image. */}}
{{- define "weft.reference" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "weft.image" -}}
{{ include "weft.reference" (dict "image" .Values.image "root" .) }}
{{- end -}}

{{- define "weft.agentImage" -}}
{{ include "weft.reference" (dict "image" .Values.agentImage "root" .) }}
{{- end -}}

{{/* Not empty if one of the components `any` is chosen. None chosen means all. */}}
{{- define "weft.chosen" -}}
{{- if not .chosen -}}
true
{{- else -}}
{{- range .any -}}
{{- if has . $.chosen -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The domains, as `weft operator --domains` takes them. */}}
{{- define "weft.domains" -}}
{{- $domains := list -}}
{{- if .Values.addons.enabled }}{{ $domains = append $domains "addons" }}{{ end -}}
{{- if .Values.clusterNetwork.enabled }}{{ $domains = append $domains "cluster-network" }}{{ end -}}
{{- if .Values.nodeNetwork.enabled }}{{ $domains = append $domains "node-network" }}{{ end -}}
{{- if .Values.placement.enabled }}{{ $domains = append $domains "placement" }}{{ end -}}
{{- if not $domains -}}
{{- fail "no domain is enabled: set addons.enabled, nodeNetwork.enabled, clusterNetwork.enabled or placement.enabled to true" -}}
{{- end -}}
{{- $addons := .Values.addons.components -}}
{{- if and (has "multus-dynamic-networks" $addons) (not (has "multus" $addons)) -}}
{{- fail "addons.components has multus-dynamic-networks, which needs multus: add multus to the list" -}}
{{- end -}}
{{- $network := .Values.clusterNetwork -}}
{{- if and $network.apiServer.host $network.nodeKubeconfig -}}
{{- fail "clusterNetwork.apiServer.host and clusterNetwork.nodeKubeconfig both say where the API server is: set one of them" -}}
{{- end -}}
{{ join "," $domains }}
{{- end -}}
