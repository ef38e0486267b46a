package main

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belay-run/belay/cmd/internal/config"
	"github.com/belay-run/belay/cmd/internal/doctor"
	"github.com/belay-run/belay/consumers/githubapp"
	"github.com/belay-run/belay/kv/task"
)

// appCommand is `belay app`.
func (c *cli) appCommand() *cobra.Command {
	return group("app", "Set the GitHub App up", c.manifestCommand())
}

func (c *cli) manifestCommand() *cobra.Command {
	var o githubapp.ManifestOptions
	var source string
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Print the manifest of the GitHub App that the configuration needs",
		Long: `Prints the manifest of a GitHub App as JSON: the webhook's address, and the
permissions and events that the routes of the configuration use, no more. GitHub
makes an App from it at https://github.com/settings/apps/new, or at
https://github.com/organizations/ORG/settings/apps/new ("Registering a GitHub App
from a manifest" in its documentation); for an App that is there already, it
says what to switch on.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.loadConfig()
			if err != nil {
				return err
			}
			if err := completeManifest(&o, cfg, source); err != nil {
				return err
			}
			b, err := githubapp.Manifest(doctor.Routes(cfg), o)
			if err != nil {
				return err
			}
			_, err = c.out.Write(b)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.WebhookURL, "webhook-url", "", "`address` at which GitHub reaches belay (default: webhook_url of the source)")
	f.StringVar(&source, "source", task.DefaultSource, "`name` of the source whose App it is; default is [github]")
	f.StringVar(&o.Name, "name", "", "the App's `name`, unique on GitHub (default: that of the first familiar's login)")
	f.StringVar(&o.URL, "url", "", "the App's home `page` (default: the webhook's host)")
	f.BoolVar(&o.Public, "public", false, "others may install it too")
	return cmd
}

// completeManifest takes from the configuration what the command line left out.
func completeManifest(o *githubapp.ManifestOptions, cfg *config.Config, source string) error {
	src, ok := cfg.SourceByName(source)
	if !ok {
		return unknownSource(cfg, source, "")
	}
	const next = "write the address at which GitHub reaches belay, such as https://belay.example/webhook"
	key := "--webhook-url"
	if o.WebhookURL == "" {
		key, o.WebhookURL = src.Key+".webhook_url", src.WebhookURL
	}
	if o.WebhookURL == "" {
		return usageError("%s is not set: %s, or pass it as --webhook-url", key, next)
	}
	u, err := url.Parse(o.WebhookURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return usageError("%s = %q is not an http address: %s", key, o.WebhookURL, next)
	}
	if o.URL == "" {
		o.URL = u.Scheme + "://" + u.Host
	}
	if o.Name == "" && len(cfg.Familiars) > 0 {
		o.Name = strings.TrimSuffix(cfg.Familiars[0].BotUsername, "[bot]")
	}
	return nil
}
