{{- define "runrig.name" -}}
{{- if contains "runrig" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-runrig" (.Release.Name | trunc 43 | trimSuffix "-") }}{{ end }}
{{- end -}}

{{- define "runrig.selector" -}}
app.kubernetes.io/name: runrig
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* managed-by is not runrig: that label marks the objects which the server itself manages. */}}
{{- define "runrig.labels" -}}
{{ include "runrig.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "runrig.postgresql" -}}{{ if .Values.database.secretName }}yes{{ end }}{{- end -}}

{{- define "runrig.replicas" -}}
{{- if kindIs "invalid" .Values.replicas }}{{ ternary 2 1 (eq (include "runrig.postgresql" .) "yes") }}{{ else }}{{ .Values.replicas }}{{ end }}
{{- end -}}

{{- define "runrig.check" -}}
{{- if and (gt (int (include "runrig.replicas" .)) 1) (ne (include "runrig.postgresql" .) "yes") }}
{{- fail "replicas is more than 1, and SQLite allows only one server. Set database.secretName to a Secret with the URL of a PostgreSQL database." }}
{{- end }}
{{- end -}}

{{- define "runrig.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- if include "runrig.postgresql" . }}
env:
- name: RUNRIG_DATABASE
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secretName }}, key: {{ .Values.database.secretKey }}}}
{{- end }}
volumeMounts:
- {name: config, mountPath: /etc/runrig, readOnly: true}
- {name: data, mountPath: /var/lib/runrig}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tls.secretName }}
- {name: tls, mountPath: /etc/runrig-tls, readOnly: true}
{{- end }}
{{- end -}}
