package github

import (
	"encoding/json"
	"testing"
)

// The decoder must cost no more than the signature over the same body.

func BenchmarkVerify(b *testing.B) {
	body := sample(b)
	header := sign(vectorKey, body)
	for name, secrets := range map[string][]Secret{
		"one":               {NewSecret("a", []byte(vectorKey))},
		"two":               {NewSecret("a", []byte(vectorKey)), NewSecret("b", []byte("other"))},
		"one without state": {{ID: "a", Key: []byte(vectorKey)}},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Verify(secrets, body, header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	body := sample(b)
	run := func(name string, decode func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("belay", func() error {
		_, err := Decode("pull_request", body)
		return err
	})
	run("encoding-json", func() error {
		type account struct{ Login string }
		var p struct {
			Action, Before string
			Number         int
			Installation   struct{ ID int64 }
			Sender         account
			Repository     struct {
				ID            int64
				FullName      string `json:"full_name"`
				CloneURL      string `json:"clone_url"`
				DefaultBranch string `json:"default_branch"`
			}
			PullRequest struct {
				Number    int
				Title     string
				Draft     bool
				UpdatedAt string `json:"updated_at"`
				User      account
				Head      struct{ SHA string }
			} `json:"pull_request"`
		}
		return json.Unmarshal(body, &p)
	})
}

func BenchmarkRoute(b *testing.B) {
	cfg := config()
	ev, err := Decode("pull_request", sample(b))
	if err != nil {
		b.Fatal(err)
	}
	h := Headers{Event: "pull_request", Delivery: "g"}
	b.ReportAllocs()
	for b.Loop() {
		if d := Route(cfg, h, ev, now); d.Task == nil {
			b.Fatal(d.Routing)
		}
	}
}
