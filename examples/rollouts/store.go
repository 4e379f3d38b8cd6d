package main

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"time"
)

// storeTakes is how long the agent's store takes for a turn. Two connections do 40
// turns a second, and 16 rollouts would like to do more.
const storeTakes = 50 * time.Millisecond

// openStore opens the agent's store, with a pool of so many connections as people
// set one and forget it. It returns nil where there is to be no store.
func openStore(connections int) *sql.DB {
	if connections == 0 {
		return nil
	}
	db := sql.OpenDB(store{})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// keep stores a turn.
func keep(ctx context.Context, db *sql.DB, turn string) error {
	if db == nil {
		return nil
	}
	_, err := db.ExecContext(ctx, "INSERT INTO turns VALUES (?)", turn)
	return err
}

// store is a database that takes its time and keeps nothing: what is to be seen is
// the pool of package database/sql in front of it.
type store struct{}

func (s store) Connect(context.Context) (sqldriver.Conn, error) { return s, nil }
func (s store) Driver() sqldriver.Driver                        { return s }
func (s store) Open(string) (sqldriver.Conn, error)             { return s, nil }
func (s store) Close() error                                    { return nil }

func (s store) ExecContext(context.Context, string, []sqldriver.NamedValue) (sqldriver.Result, error) {
	time.Sleep(storeTakes)
	return sqldriver.RowsAffected(1), nil
}

var errStoreOnlyKeeps = errors.New("this store only keeps")

func (s store) Begin() (sqldriver.Tx, error)           { return nil, errStoreOnlyKeeps }
func (s store) Prepare(string) (sqldriver.Stmt, error) { return nil, errStoreOnlyKeeps }
