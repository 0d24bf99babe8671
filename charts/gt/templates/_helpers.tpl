{{- define "gt.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}-operator
{{- end }}

{{- define "gt.labels" -}}
app.kubernetes.io/name: gt
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gt.selector" -}}
app.kubernetes.io/name: gt
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gt.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The Lease is watched like everything else, so it must be in a namespace that is. */ -}}
{{- define "gt.leaseNamespace" -}}
{{ if .Values.watchNamespaces }}{{ first .Values.watchNamespaces }}{{ else }}{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- /* What the operator may do where it serves GTClusters and GTJobs. */ -}}
{{- define "gt.rules" -}}
- apiGroups: [gt.dev]
  resources: [gtclusters]
  verbs: [get, list, watch, create, patch, delete] # a job's own cluster is made, and deleted when the job has ended
- apiGroups: [gt.dev]
  resources: [gtjobs]
  verbs: [list, watch]
- apiGroups: [gt.dev]
  resources: [gtclusters/status, gtjobs/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, create, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [secrets] # keys; no list and no watch, which would show the Secrets of others
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [configmaps] # sharding files
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
{{- end }}

{{- /* The Lease is made by the chart, so that nothing is left of it after the release is uninstalled. */ -}}
{{- define "gt.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "gt.name" . }}]
  verbs: [get, list, watch, update]
{{- end }}
