{{- define "modproxy.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "modproxy.selector" -}}
app.kubernetes.io/name: modproxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "modproxy.metadata" -}}
name: {{ include "modproxy.name" . }}
labels:
  {{- include "modproxy.selector" . | nindent 2 }}
{{- end -}}

{{- define "modproxy.hasOwnConfig" -}}
{{- if not (or .Values.existingConfig.configMap .Values.existingConfig.secret) }}true{{ end -}}
{{- end -}}

{{- /* Rules about several values, which the schema cannot express in words. */ -}}
{{- define "modproxy.check" -}}
{{- if and .Values.existingConfig.configMap .Values.existingConfig.secret }}
{{- fail "existingConfig: configMap and secret are set: remove one" }}
{{- end }}
{{- if include "modproxy.hasOwnConfig" . }}
{{- if and .Values.persistence.readOnly (not (get .Values.config "offline")) }}
{{- fail "persistence.readOnly: a modproxy that is not offline is not ready without a writable volume: set config.offline to true" }}
{{- end }}
{{- if and .Values.ingress.enabled (not (get .Values.config "public_url")) }}
{{- fail "ingress.enabled: modproxy does not know the URL that clients use: set config.public_url" }}
{{- end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.enabled: set ingress.host" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.tokenSecret.name) }}
{{- fail "serviceMonitor.enabled: metrics need an admin token: set serviceMonitor.tokenSecret.name" }}
{{- end }}
{{- end -}}
