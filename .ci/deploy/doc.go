// Package deploytest checks the files of deploy with the parsers of those who read
// them: BuildKit's of Dockerfiles, Compose's own loader, the types of Kubernetes.
// It is a module of its own: these stay out of belay's go.mod.
package deploytest
