{{/* Names of objects. They are cut at 40 characters, because KubeRay adds up to 22 characters (group, node) to names of Ray pods. */}}
{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "weir.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/part-of: weir
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of an object; arguments are the root context, the component and additional labels. */}}
{{- define "weir.labels" -}}
{{- $own := dict "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version) "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $selector := include "weir.selector" . | fromYaml -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.commonLabels) (deepCopy (default dict .labels)) $own $selector) -}}
{{- end -}}

{{- define "weir.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "weir.labels" . | nindent 2 }}
{{- with merge (deepCopy (default dict .annotations)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "weir.podMetadata" -}}
labels:
  {{- include "weir.labels" . | nindent 2 }}
{{- with merge (deepCopy (default dict .annotations)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Reference of an image; a digest takes precedence over a tag. */}}
{{- define "weir.image" -}}
{{- $name := .image.repository -}}
{{- with default .image.registry (default dict .root.Values.global).imageRegistry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if .image.digest -}}
{{ printf "%s@%s" $name .image.digest }}
{{- else -}}
{{ printf "%s:%s" $name (default .root.Chart.AppVersion .image.tag) }}
{{- end -}}
{{- end -}}

{{- define "weir.pullSecrets" -}}
{{- with .pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "weir.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "weir.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "weir.ingestServiceAccount" -}}
{{- if .Values.ingest.serviceAccount.create -}}
{{ default (printf "%s-ingest" (include "weir.fullname" .)) .Values.ingest.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.ingest.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "weir.keysSecret" -}}
{{- default (printf "%s-keys" (include "weir.fullname" .)) .Values.keys.existingSecret -}}
{{- end -}}

{{- define "weir.hasDatabase" -}}
{{- if or .Values.catalog.dsn .Values.catalog.existingSecret }}yes{{ end -}}
{{- end -}}

{{- define "weir.apiName" -}}
{{ include "weir.fullname" . }}-api
{{- end -}}

{{- define "weir.apiUrl" -}}
{{- $scheme := ternary "https" "http" .Values.api.tls.enabled -}}
{{ printf "%s://%s.%s.svc:%d" $scheme (include "weir.apiName" .) .Release.Namespace (int .Values.api.service.port) }}
{{- end -}}

{{- define "weir.apiProbe" -}}
httpGet:
  path: {{ .path }}
  port: api
  scheme: {{ ternary "HTTPS" "HTTP" .root.Values.api.tls.enabled }}
{{- end -}}

{{- define "weir.keyEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ include "weir.keysSecret" .root }}
      key: {{ .key }}
{{- end -}}

{{/* Environment of containers that call the service. */}}
{{- define "weir.callerEnv" -}}
- name: WEIR_ENDPOINT
  value: {{ include "weir.apiUrl" .root | quote }}
{{ include "weir.keyEnv" (dict "root" .root "name" "WEIR_API_KEY" "key" .key) }}
{{- if .root.Values.api.tls.enabled }}
- name: WEIR_CA_FILE
  value: /etc/weir-tls/ca.crt
{{- end }}
{{- end -}}

{{/* Volume with the authorities that signed the gateways' certificate; workers also get the certificate and its key. */}}
{{- define "weir.gatewayTlsVolume" -}}
{{- if .root.Values.gateway.tls.enabled }}
- name: gateway-tls
  secret:
    secretName: {{ .root.Values.gateway.tls.existingSecret }}
    items:
      {{- range .files }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}
{{- end -}}

{{- define "weir.gatewayTlsMount" -}}
{{- if .Values.gateway.tls.enabled }}
- {name: gateway-tls, mountPath: /etc/weir-gateway-tls, readOnly: true}
{{- end }}
{{- end -}}

{{- define "weir.callerVolume" -}}
{{- if .Values.api.tls.enabled }}
- name: tls
  secret:
    secretName: {{ .Values.api.tls.existingSecret }}
    items:
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- end -}}

{{- define "weir.callerMount" -}}
{{- if .Values.api.tls.enabled }}
- name: tls
  mountPath: /etc/weir-tls
  readOnly: true
{{- end }}
{{- end -}}

{{/* Environment of all containers. /var/lib/weir is writable, while the root file system is read-only. */}}
{{- define "weir.environment" -}}
- name: HOME
  value: /var/lib/weir
- name: WEIR_HOME
  value: /var/lib/weir
- name: PYTHONUNBUFFERED
  value: "1"
{{- end -}}

{{/* Scheduling of pods on nodes; `pods` has values in Kubernetes' format. */}}
{{- define "weir.placement" -}}
{{- with .pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pods.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- $selector := dict "matchLabels" (include "weir.selector" (dict "root" .root "component" .component) | fromYaml) }}
{{- with .pods.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml (merge (deepCopy .) (dict "labelSelector" $selector)) | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Number of whole processors in a CPU quantity, rounded down: lanes need whole processors. */}}
{{- define "weir.processors" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text -}}
{{ div (trimSuffix "m" $text | float64 | int) 1000 }}
{{- else -}}
{{ floor (float64 $text) | int }}
{{- end -}}
{{- end -}}

{{/* Number of bytes in a quantity of memory. */}}
{{- define "weir.bytes" -}}
{{- $text := toString . -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $text "" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{ mulf (trimSuffix $unit $text | float64) (get $units $unit) | int64 }}
{{- end -}}

{{/* What the KubeRay operator is too old for, by its CRD; nothing without a CRD, as in helm template. It would drop fields that it does not know. */}}
{{- define "weir.operatorProblem" -}}
{{- $ray := .values.ray -}}
{{- range (default dict (default dict .crd).spec).versions -}}
{{- if eq .name "v1" -}}
{{- $known := .schema.openAPIV3Schema.properties.spec.properties -}}
{{- $authentication := default dict (default dict $known.authOptions).properties -}}
{{- if and $ray.auth.enabled (not (hasKey $known "authOptions")) -}}
ray.auth.enabled: this KubeRay operator does not know authOptions; install KubeRay 1.6 or newer with its CRDs, or set ray.auth.enabled to false
{{- else if and $ray.auth.existingSecret (not (hasKey $authentication "secretName")) -}}
ray.auth.existingSecret: this KubeRay operator does not know authOptions.secretName; install KubeRay 1.6 or newer with its CRDs, or remove the name
{{- else if and $ray.upgradeStrategy (not (hasKey $known "upgradeStrategy")) -}}
ray.upgradeStrategy: this KubeRay operator does not know upgradeStrategy; install KubeRay 1.6 or newer with its CRDs, or remove the value
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Content of the configuration file of weir up. */}}
{{- define "weir.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.api.tls.enabled -}}
{{- $_ := set $config "service" (merge (dict "tls_certificate" "/etc/weir-tls/tls.crt" "tls_key" "/etc/weir-tls/tls.key") $config.service) -}}
{{- end -}}
{{- if .Values.gateway.tls.enabled -}}
{{- $folder := "/etc/weir-gateway-tls" -}}
{{- $tls := dict "certificate" (printf "%s/tls.crt" $folder) "key" (printf "%s/tls.key" $folder) "ca_file" (printf "%s/ca.crt" $folder) "server_name" .Values.gateway.tls.serverName -}}
{{- $_ := set $config "gateway" (merge (dict "tls" $tls) $config.gateway) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Documents that the Job declares, as YAML. */}}
{{- define "weir.documents" -}}
{{- range .Values.priorityClasses }}
---
{{ toYaml (merge (dict "kind" "PriorityClass") .) }}
{{- end }}
{{- range .Values.tenants }}
---
{{ toYaml (merge (dict "kind" "Tenant") .) }}
{{- end }}
{{- range .Values.mirrors }}
---
{{ toYaml (merge (dict "kind" "Mirror") .) }}
{{- end }}
{{- with .Values.ingest }}
{{- if and .enabled .executors.enabled }}
---
{{ include "weir.session" $ }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Session document for Spark on Kubernetes: the driver starts executors in their own pods.
The driver listens at all addresses (0.0.0.0). With useDriverPodIP, which is the default of Spark 4.3, executors would call 0.0.0.0.
*/}}
{{- define "weir.session" -}}
{{- $executors := .Values.ingest.executors -}}
{{- $name := printf "%s-ingest" (include "weir.fullname" .) -}}
{{- $conf := dict
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "weir.image" (dict "root" . "image" .Values.ingest.image))
  "spark.kubernetes.container.image.pullPolicy" .Values.ingest.image.pullPolicy
  "spark.kubernetes.authenticate.executor.serviceAccountName" (include "weir.ingestServiceAccount" .)
  "spark.kubernetes.executor.label.app.kubernetes.io/part-of" "weir"
  "spark.kubernetes.executor.label.app.kubernetes.io/instance" .Release.Name
  "spark.kubernetes.executor.label.app.kubernetes.io/component" "executor"
  "spark.kubernetes.executor.podTemplateFile" "/etc/weir-ingest/executor.yaml"
  "spark.executor.instances" (toString $executors.instances)
  "spark.executor.cores" (toString $executors.cores)
  "spark.executor.memory" $executors.memory
  "spark.executor.memoryOverheadFactor" (toString $executors.memoryOverheadFactor)
  "spark.driver.host" (printf "%s.%s.svc" $name .Release.Namespace)
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.kubernetes.executor.useDriverPodIP" "false"
  "spark.driver.port" "7078"
  "spark.driver.blockManager.port" "7079"
-}}
{{- with .Values.ingest.image.pullSecrets -}}
{{- $_ := set $conf "spark.kubernetes.container.image.pullSecrets" (join "," .) -}}
{{- end -}}
{{- toYaml (dict "kind" "Session" "name" "spark" "master" "k8s://https://kubernetes.default.svc" "conf" (merge (deepCopy $executors.conf) $conf)) -}}
{{- end -}}

{{- define "weir.policy" -}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "weir.metadata" (dict "root" .root "component" .component "name" (printf "%s-%s" (include "weir.fullname" .root) .component)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "weir.selector" (dict "root" .root "component" .component) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- toYaml .ingress | nindent 4 }}
  egress:
    {{- toYaml .egress | nindent 4 }}
{{ end -}}
{{- define "weir.open" -}}
{{- $ports := list -}}
{{- range .ports }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end -}}
{{- toYaml (dict "from" .from "ports" $ports) -}}
{{- end -}}
