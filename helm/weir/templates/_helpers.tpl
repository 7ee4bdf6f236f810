{{/* Names. Pods of Ray have up to 22 characters more: KubeRay adds group and node. */}}
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

{{/* Of an object: root, component, and labels of its own. */}}
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

{{/* A digest goes before a tag. */}}
{{- define "weir.image" -}}
{{- $name := .image.repository -}}
{{- with .image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
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

{{/* Of whoever calls the service. */}}
{{- define "weir.callerEnv" -}}
- name: WEIR_ENDPOINT
  value: {{ include "weir.apiUrl" .root | quote }}
{{ include "weir.keyEnv" (dict "root" .root "name" "WEIR_API_KEY" "key" .key) }}
{{- if .root.Values.api.tls.enabled }}
- name: WEIR_CA_FILE
  value: /etc/weir-tls/ca.crt
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

{{/* What containers that are not Ray's have in common; only what is said here can be written to. */}}
{{- define "weir.environment" -}}
- name: HOME
  value: /var/lib/weir
- name: WEIR_HOME
  value: /var/lib/weir
- name: PYTHONUNBUFFERED
  value: "1"
{{- end -}}

{{/* Where pods go; `pods` has Kubernetes' own words. */}}
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

{{/* Whole processors of a quantity: what Ray will make of it. */}}
{{- define "weir.processors" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text -}}
{{ div (trimSuffix "m" $text | float64 | int) 1000 }}
{{- else -}}
{{ floor (float64 $text) | int }}
{{- end -}}
{{- end -}}

{{/* The file that weir up reads. */}}
{{- define "weir.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.api.tls.enabled -}}
{{- $_ := set $config "service" (merge (dict "tls_certificate" "/etc/weir-tls/tls.crt" "tls_key" "/etc/weir-tls/tls.key") $config.service) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* What the Job declares: a list of documents. */}}
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

{{/* Spark on Kubernetes: executors in pods that the driver asks for. */}}
{{- define "weir.session" -}}
{{- $executors := .Values.ingest.executors -}}
{{- $name := printf "%s-ingest" (include "weir.fullname" .) -}}
{{- $conf := dict
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "weir.image" (dict "root" . "image" .Values.ingest.image))
  "spark.kubernetes.container.image.pullPolicy" .Values.ingest.image.pullPolicy
  "spark.kubernetes.authenticate.serviceAccountName" (include "weir.ingestServiceAccount" .)
  "spark.kubernetes.executor.label.app.kubernetes.io/part-of" "weir"
  "spark.kubernetes.executor.label.app.kubernetes.io/instance" .Release.Name
  "spark.kubernetes.executor.label.app.kubernetes.io/component" "executor"
  "spark.kubernetes.executor.podTemplateFile" "/etc/weir-ingest/executor.yaml"
  "spark.executor.instances" (toString $executors.instances)
  "spark.executor.cores" (toString $executors.cores)
  "spark.executor.memory" $executors.memory
  "spark.driver.host" (printf "%s.%s.svc" $name .Release.Namespace)
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.driver.port" "7078"
  "spark.driver.blockManager.port" "7079"
-}}
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
