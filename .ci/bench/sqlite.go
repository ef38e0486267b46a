package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	_ "github.com/mattn/go-sqlite3" // SQLite itself, in C; the translation to Go is slower

	"github.com/belay-run/belay/kv/task"
)

// schema is that of a durable task store on SQLite.
const schema = `
CREATE TABLE webhook_deliveries (
  delivery_id TEXT PRIMARY KEY, event TEXT NOT NULL, action TEXT, installation_id INTEGER, repo TEXT,
  payload_hash TEXT NOT NULL, routing TEXT NOT NULL, received_at TEXT NOT NULL);
CREATE TABLE tasks (
  id TEXT PRIMARY KEY, delivery_id TEXT REFERENCES webhook_deliveries(delivery_id), installation_id INTEGER NOT NULL,
  repo TEXT NOT NULL, familiar_id TEXT NOT NULL, kind TEXT NOT NULL, commander TEXT, state TEXT NOT NULL,
  supersede_key TEXT, attempts INTEGER NOT NULL DEFAULT 0, branch TEXT, pr_number INTEGER, check_run_url TEXT,
  summary TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE INDEX tasks_state_created ON tasks(state, created_at);
CREATE INDEX tasks_supersede ON tasks(supersede_key) WHERE supersede_key IS NOT NULL;
CREATE TABLE task_attempts (
  task_id TEXT NOT NULL REFERENCES tasks(id), attempt INTEGER NOT NULL, started_at TEXT NOT NULL, ended_at TEXT,
  outcome TEXT, detail TEXT, PRIMARY KEY (task_id, attempt));`

const (
	insertDelivery = `INSERT INTO webhook_deliveries (delivery_id, event, action, installation_id, repo, payload_hash, routing, received_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(delivery_id) DO NOTHING`
	insertTask = `INSERT INTO tasks (id, delivery_id, installation_id, repo, familiar_id, kind, state, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?)`
	claimTask = `UPDATE tasks SET state = 'running', attempts = attempts + 1, updated_at = ?
WHERE id = (SELECT id FROM tasks WHERE state = 'queued' ORDER BY created_at LIMIT 1) RETURNING id, attempts, kind`
	insertAttempt = `INSERT INTO task_attempts (task_id, attempt, started_at) VALUES (?, ?, ?)`
	finishTask    = `UPDATE tasks SET state = 'completed', summary = ?, updated_at = ? WHERE id = ?`
	finishAttempt = `UPDATE task_attempts SET ended_at = ?, outcome = 'completed' WHERE task_id = ? AND attempt = ?`
)

// openSQLite makes a database with one connection: one writer, as SQLite wants it.
func openSQLite(ctx context.Context, path, synchronous string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous="+synchronous+"&_busy_timeout=5000&_foreign_keys=on&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("make tables: %w", err), db.Close())
	}
	return db, nil
}

// rows are the values of a delivery and its task, in the order of the inserts.
type rows struct{ delivery, task []any }

func rowsOf(d *task.Delivery) (rows, error) {
	kind, err := json.Marshal(d.Task.Kind)
	if err != nil {
		return rows{}, fmt.Errorf("encode kind: %w", err)
	}
	id, _ := d.Routing.Task()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	return rows{
		delivery: []any{string(d.ID), d.Event, d.Action, d.InstallationID, d.Repo, d.PayloadHash, string(d.Routing), now},
		task:     []any{string(id), string(d.ID), d.InstallationID, d.Repo, d.Task.FamiliarID, string(kind), now, now},
	}, nil
}
