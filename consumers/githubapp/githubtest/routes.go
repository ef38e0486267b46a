package githubtest

import "net/http"

// The routes, as Fault.Op and Mutation.Op name them.
const (
	OpApp            = "GET /app"
	OpToken          = "POST /app/installations/{id}/access_tokens"
	OpInstallation   = "GET /repos/{owner}/{repo}/installation"
	OpHookConfig     = "GET /app/hook/config"
	OpDeliveries     = "GET /app/hook/deliveries"
	OpDelivery       = "GET /app/hook/deliveries/{id}"
	OpRedeliver      = "POST /app/hook/deliveries/{id}/attempts"
	OpRepository     = "GET /repos/{owner}/{repo}"
	OpRepositoryByID = "GET /repositories/{repo_id}"
	OpPermission     = "GET /repos/{owner}/{repo}/collaborators/{login}/permission"
	OpRef            = "GET /repos/{owner}/{repo}/git/ref/{ref...}"
	OpCommit         = "GET /repos/{owner}/{repo}/commits/{ref}"
	OpCreateCheck    = "POST /repos/{owner}/{repo}/check-runs"
	OpUpdateCheck    = "PATCH /repos/{owner}/{repo}/check-runs/{id}"
	OpCheck          = "GET /repos/{owner}/{repo}/check-runs/{id}"
	OpListChecks     = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"
	OpCreateComment  = "POST /repos/{owner}/{repo}/issues/{number}/comments"
	OpListComments   = "GET /repos/{owner}/{repo}/issues/{number}/comments"
	OpEditComment    = "PATCH /repos/{owner}/{repo}/issues/comments/{id}"
	OpDeleteComment  = "DELETE /repos/{owner}/{repo}/issues/comments/{id}"
	OpCreateIssue    = "POST /repos/{owner}/{repo}/issues"
	OpListIssues     = "GET /repos/{owner}/{repo}/issues"
	OpIssue          = "GET /repos/{owner}/{repo}/issues/{number}"
	OpCreatePull     = "POST /repos/{owner}/{repo}/pulls"
	OpListPulls      = "GET /repos/{owner}/{repo}/pulls"
	OpPull           = "GET /repos/{owner}/{repo}/pulls/{number}"
	OpPullFiles      = "GET /repos/{owner}/{repo}/pulls/{number}/files"
)

// routes says of each route who may call it: the App, or a token with one of
// the permissions (as each page of GitHub's REST documentation lists them).
func (s *Server) routes() {
	app := func(op string, f func(http.ResponseWriter, *http.Request)) { s.mux.HandleFunc(op, s.asApp(f)) }
	app(OpApp, s.getApp)
	app(OpToken, s.createToken)
	app(OpInstallation, s.getInstallation)
	app(OpHookConfig, s.getHookConfig)
	app(OpDeliveries, s.listDeliveries)
	app(OpDelivery, s.getDelivery)
	app(OpRedeliver, s.redeliver)

	inst := func(op string, f func(*call), anyOf ...string) { s.mux.HandleFunc(op, s.asInstallation(f, anyOf...)) }
	inst(OpRepository, s.getRepository, "metadata:read")
	inst(OpRepositoryByID, s.getRepository, "metadata:read")
	inst(OpPermission, s.getPermission, "metadata:read")
	inst(OpRef, s.getRef, "contents:read")
	inst(OpCommit, s.getCommit, "contents:read")
	inst(OpCreateCheck, s.createCheck, "checks:write")
	inst(OpUpdateCheck, s.updateCheck, "checks:write")
	inst(OpCheck, s.getCheck, "checks:read")
	inst(OpListChecks, s.listChecks, "checks:read")
	inst(OpCreateComment, s.createComment, "issues:write", "pull_requests:write")
	inst(OpListComments, s.listComments, "issues:read", "pull_requests:read")
	inst(OpEditComment, s.editComment, "issues:write", "pull_requests:write")
	inst(OpDeleteComment, s.deleteComment, "issues:write", "pull_requests:write")
	inst(OpCreateIssue, s.createIssue, "issues:write")
	inst(OpListIssues, s.listIssues, "issues:read")
	inst(OpIssue, s.getIssue, "issues:read", "pull_requests:read")
	inst(OpCreatePull, s.createPull, "pull_requests:write")
	inst(OpListPulls, s.listPulls, "pull_requests:read")
	inst(OpPull, s.getPull, "pull_requests:read")
	inst(OpPullFiles, s.listPullFiles, "pull_requests:read")
}
