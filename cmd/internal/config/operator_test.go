package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belay-run/belay/kv/redact"
)

// desk is an [operator] without problems.
const desk = "[operator]\nrepo = \"acme/site\"\ntenants = { \"acme/site\" = \"acme\" }\n[[operator.keys]]\nid = \"worker\"\nsecret = \"0123456789abcdef0123\"\n"

func TestOperator(t *testing.T) {
	t.Parallel()
	path := write(t, "fedcba9876543210fedc\n")
	c, err := load(t, desk+"[[operator.keys]]\nid = \"old\"\nsecret_file = \""+path+"\"\n"+minimal)
	require.NoError(t, err)
	require.Equal(t, Operator{
		Repo: "acme/site", Tenant0: "invotek", Tenants: map[string]string{"acme/site": "acme"},
		Keys: []OperatorKey{{ID: "worker", Secret: "0123456789abcdef0123"}, {ID: "old", Secret: "fedcba9876543210fedc", SecretFile: path}},
	}, c.Operator)
	require.Equal(t, OriginFile, c.Origin("operator.keys[0].secret"))

	c, err = load(t, strings.Replace(desk, "[[operator.keys]]\nid = \"worker\"\nsecret = \"0123456789abcdef0123\"\n", "keys = [{ id = \"worker\", secret = \"0123456789abcdef0123\" }]\n", 1)+minimal)
	require.NoError(t, err, "a list of inline tables is the same")
	require.Len(t, c.Operator.Keys, 1)

	c, err = load(t, desk+minimal, "BELAY_OPERATOR_KEYS_WORKER_SECRET=aaaaaaaaaaaaaaaabbbb", "BELAY_OPERATOR_REPO=acme/other")
	require.NoError(t, err)
	require.Equal(t, redact.Secret("aaaaaaaaaaaaaaaabbbb"), c.Operator.Keys[0].Secret)
	require.Equal(t, "acme/other", c.Operator.Repo)
	text := printed(t, c)
	require.NotContains(t, text, "aaaaaaaa")
	require.Contains(t, text, "[[operator.keys]]\nid = \"worker\" # file\nsecret = \"[set]\" # env BELAY_OPERATOR_KEYS_WORKER_SECRET\n")
	require.Contains(t, text, "tenants = { \"acme/site\" = \"acme\" } # file\n")

	c, err = load(t, minimal)
	require.NoError(t, err, "nothing of it is needed")
	require.Equal(t, Operator{Tenant0: "invotek"}, c.Operator)
}

// TestOperatorRules has one row for each rule about operator tasks.
func TestOperatorRules(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(desk, from, to, 1) }
	rows := map[string]struct{ text, want string }{
		"not a list":        {"[operator]\nkeys = \"k\"\n", "operator.keys: is not a list of operator.keys: write [[operator.keys]]"},
		"not a table":       {"[operator]\nkeys = [1]\n", "operator.keys[0]: is not a key"},
		"unknown key":       {change("secret =", "secrt ="), "line 6: operator.keys[0].secrt: unknown key: did you mean operator.keys.secret?"},
		"unknown at top":    {change("repo", "repository"), "line 2: operator.repository: unknown key: did you mean operator.repo?"},
		"no id":             {change("id = \"worker\"\n", ""), "operator.keys[0].id: is not set"},
		"id with a dot":     {change("worker", "w.x"), `line 5: operator.keys[0].id = "w.x": is not a valid name`},
		"one id twice":      {desk + "[[operator.keys]]\nid = \"Worker\"\nsecret = \"0123456789abcdef0123\"\n", `line 8: operator.keys[1].id = "Worker": is already that of operator.keys[0]: give each key its own id`},
		"no secret":         {change("secret = \"0123456789abcdef0123\"\n", ""), "operator.keys[0].secret: is not set: set secret or secret_file"},
		"empty secret":      {change("0123456789abcdef0123", ""), "line 6: operator.keys[0].secret: has an empty secret"},
		"placeholder":       {change("0123456789abcdef0123", "changeme"), "operator.keys[0].secret: has a placeholder"},
		"beside its file":   {desk + "secret_file = \"f\"\n", "operator.keys[0].secret_file: is set beside operator.keys[0].secret"},
		"missing file":      {change("secret = \"0123456789abcdef0123\"", "secret_file = \"/nonexistent/s\""), `operator.keys[0].secret_file = "/nonexistent/s": no such file`},
		"key without repo":  {change("repo = \"acme/site\"\n", ""), "operator.repo: is not set, but operator.keys are: write owner/name"},
		"no repository":     {change("repo = \"acme/site\"", "repo = \"site\""), `line 2: operator.repo = "site": is not a repository: write owner/name`},
		"blank tenant":      {change("= \"acme\"", "= \" \""), `operator.tenants = "acme/site =  ": does not name a tenant: write 2 to 20 letters`},
		"tenant's form":     {change("= \"acme\"", "= \"ac-me\""), "operator.tenants = \"acme/site = ac-me\": does not name a tenant"},
		"foreign prefix":    {change("= \"acme\"", "= \"pgmain\""), "does not name a tenant"},
		"reserved tenant":   {change("repo =", "reserved = [\"ACME\"]\nrepo ="), "does not name a tenant"},
		"empty word":        {change("repo =", "reserved = [\" \"]\nrepo ="), "operator.reserved: has an empty word: remove it"},
		"tenant of no repo": {change("\"acme/site\" = \"acme\"", "site = \"acme\""), `operator.tenants = "site": is not a repository`},
		"one repo twice":    {change("\"acme/site\" = \"acme\"", "\"acme/site\" = \"acme\", \"Acme/Site\" = \"other\""), `operator.tenants = "acme/site": is already there as "Acme/Site"`},
		"tenant0":           {change("repo =", "tenant0 = \"\"\nrepo ="), `operator.tenant0 = "": is not a tenant's id`},
		"unknown callback":  {change("repo =", "callback = \"cd\"\nrepo ="), `operator.callback = "cd": is not a callback: add [[callbacks]] with name = "cd"`},
		"unknown variable":  {desk, "BELAY_OPERATOR_KEYS_WORKER_SECRETS: unknown variable: did you mean BELAY_OPERATOR_KEYS_WORKER_SECRET?"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if name == "unknown variable" {
				env = []string{"BELAY_OPERATOR_KEYS_WORKER_SECRETS=x"}
			}
			all := strings.Join(problemsOf(t, row.text+minimal, env...), "\n")
			require.Contains(t, all, row.want)
			require.NotContains(t, all, "0123456789")
		})
	}
}

// OT-29…32: the configuration's answer, refused where it is not canonical and
// never defaulted then.
func TestOT29OT32RepoTenant(t *testing.T) {
	t.Parallel()
	o := Operator{Tenant0: "invotek", Reserved: []string{" Root "}, Tenants: map[string]string{
		"acme/site": "acme", "acme/loud": " ACME ", "acme/blank": " ", "acme/bad": "a_b", "acme/kube": "kubesys", "acme/root": "root",
	}}
	for repo, want := range map[string]string{"acme/site": "acme", "ACME/Site": "acme", "acme/loud": "acme", "acme/nobody": "invotek"} {
		got, err := o.RepoTenant(repo)
		require.NoError(t, err, repo)
		require.Equal(t, want, got, repo)
	}
	for _, repo := range []string{"acme/blank", "acme/bad", "acme/kube", "acme/root"} {
		got, err := o.RepoTenant(repo)
		require.Error(t, err, repo)
		require.Empty(t, got, repo)
	}
	o.Tenant0 = ""
	_, err := o.RepoTenant("acme/nobody")
	require.Error(t, err)
}
