{{- define "tensor-fusion.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tensor-fusion.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* What selects a component's pods; never changes. Called with (list . "operator"). */}}
{{- define "tensor-fusion.selector" -}}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
tensor-fusion.ai/component: {{ index . 1 | quote }}
{{- end -}}

{{/* registry/repository:tag. Called with (list registry image default-tag). */}}
{{- define "tensor-fusion.image" -}}
{{- $image := index . 1 -}}
{{- printf "%s/%s:%s" (index . 0) $image.repository (default (index . 2) $image.tag) -}}
{{- end -}}

{{/* What hand edits of the TensorFusionCluster in the API server are from: a manager of its spec that is not Helm (nor Flux' helm-controller); "" when none. */}}
{{- define "tensor-fusion.clusterEditor" -}}
{{- $live := lookup "tensor-fusion.ai/v1" "TensorFusionCluster" "" .Values.cluster.name -}}
{{- range dig "metadata" "managedFields" (list) $live -}}
{{- if and (not (hasPrefix "helm" .manager)) (ne (default "" .subresource) "status") (hasKey (default dict .fieldsV1) "f:spec") -}}
{{- printf "%s at %s" .manager .time -}}
{{- break -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The version whose images the pools have where no tag is given. What Helm changes in gpuPools replaces the whole list, and with it what
people have changed there (a licence). So once somebody has, the rendering stays as it was: at the version that the last release noted.
*/}}
{{- define "tensor-fusion.componentVersion" -}}
{{- $live := lookup "tensor-fusion.ai/v1" "TensorFusionCluster" "" .Values.cluster.name -}}
{{- $before := dig "metadata" "annotations" "tensor-fusion.ai/component-version" "" $live -}}
{{- if and $before (include "tensor-fusion.clusterEditor" .) -}}
{{- $before -}}
{{- else -}}
{{- .Chart.AppVersion -}}
{{- end -}}
{{- end -}}

{{- define "tensor-fusion.podSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: ["ALL"]
seccompProfile:
  type: RuntimeDefault
{{- end -}}
