package deploytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// recoveryTakes is how long belay waits for its store to recover (J19).
const recoveryTakes = 10 * time.Minute

// kinds are the types that a manifest may have.
var kinds = map[string]func() any{
	"v1/ConfigMap":                       func() any { return &core.ConfigMap{} },
	"v1/Service":                         func() any { return &core.Service{} },
	"apps/v1/StatefulSet":                func() any { return &apps.StatefulSet{} },
	"apps/v1/Deployment":                 func() any { return &apps.Deployment{} },
	"networking.k8s.io/v1/NetworkPolicy": func() any { return &network.NetworkPolicy{} },
	"policy/v1/PodDisruptionBudget":      func() any { return &policy.PodDisruptionBudget{} },
}

// manifests decodes a file strictly: an unknown or a repeated field is an error.
func manifests(t *testing.T, name string) (out []any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "deploy", "kubernetes", name))
	require.NoError(t, err)
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var meta struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(doc), &meta))
		make := kinds[meta.APIVersion+"/"+meta.Kind]
		require.NotNil(t, make, meta)
		object := make()
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), object))
		out = append(out, object)
	}
	return out
}

// J19: a store that recovers for minutes is waited for, and no probe ends belay for
// what a restart does not mend.
func TestJ19KubernetesManifests(t *testing.T) {
	for _, name := range []string{"belay.yaml", "cluster.yaml"} {
		t.Run(name, func(t *testing.T) {
			var config string
			var pod core.PodTemplateSpec
			var labels map[string]string
			seen := map[string]bool{}
			for _, m := range manifests(t, name) {
				switch m := m.(type) {
				case *core.ConfigMap:
					config = m.Data["belay.toml"]
				case *core.Service:
					require.Len(t, m.Spec.Ports, 1)
					require.Equal(t, "http", m.Spec.Ports[0].TargetPort.StrVal, "the admin port is not in the Service (X03)")
					labels = m.Spec.Selector
				case *apps.StatefulSet:
					require.EqualValues(t, 1, *m.Spec.Replicas, "two would be two stores")
					require.Equal(t, "data", m.Spec.VolumeClaimTemplates[0].Name)
					pod = m.Spec.Template
					require.Equal(t, m.Spec.Selector.MatchLabels, pod.Labels)
				case *apps.Deployment:
					require.Greater(t, *m.Spec.Replicas, int32(1))
					pod = m.Spec.Template
					require.Equal(t, m.Spec.Selector.MatchLabels, pod.Labels)
				case *network.NetworkPolicy:
					seen["policy"] = true
					require.Equal(t, "admin", m.Spec.Ingress[1].Ports[0].Port.StrVal)
					require.NotEmpty(t, m.Spec.Ingress[1].From, "who may scrape is said")
				case *policy.PodDisruptionBudget:
					require.EqualValues(t, 1, m.Spec.MinAvailable.IntVal)
				}
			}
			require.True(t, seen["policy"])
			require.Equal(t, labels, pod.Labels)
			checkPod(t, pod.Spec, config)
		})
	}
}

func checkPod(t *testing.T, pod core.PodSpec, config string) {
	t.Helper()
	require.Greater(t, time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, stopTakes)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser)
	require.EqualValues(t, 65532, *pod.SecurityContext.FSGroup)
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	start := c.StartupProbe
	require.GreaterOrEqual(t, time.Duration(start.PeriodSeconds*start.FailureThreshold)*time.Second, recoveryTakes)
	require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	require.Equal(t, map[string]int32{"http": 3000, "admin": 9464}, ports)
	volumes := map[string]bool{"data": true} // of a StatefulSet's claim
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	mounts := map[string]bool{}
	for _, m := range c.VolumeMounts {
		require.True(t, volumes[m.Name], m.Name)
		mounts[m.MountPath] = true
	}
	require.True(t, mounts["/data"] && mounts["/tmp"])
	env := map[string]string{}
	for _, e := range c.Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = "nats://belay:b0123456789abcdef@nats-0:4222,nats://nats-1:4222"
		}
	}
	require.True(t, mounts[env["BELAY_CONFIG"]], "what is read is mounted")
	for _, name := range []string{"BELAY_GITHUB_WEBHOOK_SECRET_FILES", "BELAY_API_SERVICE_TOKEN_FILE"} {
		require.True(t, mounts[filepath.Dir(env[name])], name)
	}
	require.Equal(t, []string{"serve"}, c.Args)
	accepted(t, env, config)
}
