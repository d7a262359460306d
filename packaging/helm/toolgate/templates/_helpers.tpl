{{- define "toolgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "toolgate.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolgate.labels" -}}
{{ include "toolgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* A key of a ConfigMap has no slash, and no name of a policy two dots. */ -}}
{{- define "toolgate.key" -}}
policies.{{ . | replace "/" ".." }}
{{- end -}}

{{- /* toolgate.yaml: what the chart knows, and over it what the values say. */ -}}
{{- define "toolgate.config" -}}
{{- $isGateway := eq .Values.mode "gateway" -}}
{{- $told := deepCopy .Values.config -}}
{{- $own := dict "data" "/var/lib/toolgate/data" "listen" "127.0.0.1:7777" "admin" (dict "listen" "127.0.0.1:7778") -}}
{{- if $isGateway -}}
{{- if not .Values.config.callers -}}
{{- fail "a gateway is reached over the network: config.callers has to name its agents, with a token each" -}}
{{- end -}}
{{- $name := include "toolgate.fullname" . -}}
{{- $hosts := list -}}
{{- range list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- $hosts = concat $hosts (list . (printf "%s:%v" . $.Values.service.port)) -}}
{{- end -}}
{{- $_ := set $own "listen" "0.0.0.0:7777" -}}
{{- $_ := set $own "unencrypted" true -}}
{{- $_ := set $own "allowed_hosts" (concat $hosts (default list .Values.config.allowed_hosts) | uniq) -}}
{{- $told = omit $told "allowed_hosts" -}}
{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- if not (default dict .Values.config.admin).tokens -}}
{{- fail "metrics.enabled serves the operators' door to the pod's network: config.admin.tokens has to name the operators" -}}
{{- end -}}
{{- /* Prometheus calls a pod by its address. */ -}}
{{- $hosts := concat (list "${POD_IP}:7778") (default list .Values.config.admin.allowed_hosts) | uniq -}}
{{- $_ := set $own "admin" (dict "listen" "0.0.0.0:7778" "unencrypted" true "allowed_hosts" $hosts) -}}
{{- $_ := set $told "admin" (omit .Values.config.admin "allowed_hosts") -}}
{{- end -}}
{{- if .Values.policies -}}
{{- $_ := set $own "policies" (list "policies") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own $told) -}}
{{- end -}}

{{- /* The container. A gateway is the pod's only one; as a sidecar it starts before the agent, and ends after it. */ -}}
{{- define "toolgate.container" -}}
{{- $isSidecar := eq .Values.mode "sidecar" -}}
name: toolgate
image: "{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/toolgate/toolgate.yaml]
{{- if $isSidecar }}
restartPolicy: Always
{{- end }}
env:
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.secrets }}
envFrom:
  {{- range . }}
  - secretRef:
      name: {{ . }}
  {{- end }}
{{- end }}
{{- if or (not $isSidecar) .Values.metrics.enabled }}
ports:
  {{- if not $isSidecar }}
  - name: agents
    containerPort: 7777
  {{- end }}
  {{- if .Values.metrics.enabled }}
  - name: operators
    containerPort: 7778
  {{- end }}
{{- end }}
# Asked inside the pod: the operators' door need not be open to its network. One tool server that is down is no reason to be unready.
startupProbe:
  exec:
    command: &probe [/usr/bin/toolgate, status, --ready, --config, /etc/toolgate/toolgate.yaml]
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  exec:
    command: *probe
  periodSeconds: 10
  timeoutSeconds: 5
{{- if .Values.metrics.enabled }}
# The door answers only those who call it by a name of its own.
livenessProbe:
  httpGet:
    path: /healthz
    port: operators
    httpHeaders:
      - name: Host
        value: 127.0.0.1:7778
  periodSeconds: 30
  timeoutSeconds: 10
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  - name: toolgate-config
    mountPath: /etc/toolgate
    readOnly: true
  - name: toolgate-data
    mountPath: /var/lib/toolgate
  - name: toolgate-tmp
    mountPath: /tmp
{{- end -}}

{{- define "toolgate.volumes" -}}
- name: toolgate-config
  configMap:
    name: {{ include "toolgate.fullname" . }}
    items:
      - key: toolgate.yaml
        path: toolgate.yaml
      {{- range $name, $_ := .Values.policies }}
      - key: {{ include "toolgate.key" $name }}
        path: policies/{{ $name }}
      {{- end }}
- name: toolgate-data
  {{- if .Values.persistence.enabled }}
  persistentVolumeClaim:
    claimName: {{ default (include "toolgate.fullname" .) .Values.persistence.existingClaim }}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: toolgate-tmp
  emptyDir:
    medium: Memory
    sizeLimit: 64Mi
{{- end -}}
