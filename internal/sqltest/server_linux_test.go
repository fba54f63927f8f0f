package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// server is a database server in a folder of its own, DIR in its texts. The
// tests start it once and stop it at the end.
type server struct {
	dialect     sqlstore.Dialect
	driver, dsn string
	name, args  string // of its program
	packages    string // of Debian that have it
	user        string // who runs it when the tests run as root
	install     func(*server) error

	once  sync.Once
	err   error  // of the start
	gone  string // why there is no server
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
	said  bytes.Buffer // of the server, to be read when it has ended
}

var (
	postgres = &server{
		dialect: sqlstore.PostgreSQL, driver: "pgx", name: "postgres", packages: "postgresql", user: "postgres",
		dsn: "host=DIR user=test dbname=postgres",
		args: "-D DIR/data -k DIR -c listen_addresses= -c fsync=off -c max_connections=200 " +
			"-c deadlock_timeout=100ms -c log_min_messages=fatal",
		install: installPostgres,
	}
	mariadb = &server{
		dialect: sqlstore.MySQL, driver: "mysql", name: "mariadbd", packages: "mariadb-server", user: "mysql",
		dsn: "root@unix(DIR/socket)/test",
		args: "--no-defaults --datadir=DIR/data --socket=DIR/socket --pid-file=DIR/pid --tmpdir=DIR --skip-networking " +
			"--innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync --innodb-doublewrite=0 --innodb-buffer-pool-size=64M --max-connections=200",
		install: installMariaDB,
	}
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		fmt.Fprintln(os.Stderr, child(mode))
		os.Exit(1)
	}
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it tells of every broken connection
	code := m.Run()
	postgres.remove()
	mariadb.remove()
	os.Exit(code)
}

// start starts the server once for all tests and skips where there is none.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.once.Do(func() { s.err = s.setUp() })
	switch {
	case s.gone != "" && os.Getenv("CI") == "":
		t.Skip(s.gone)
	case s.gone != "":
		t.Fatal(s.gone)
	case s.err != nil:
		t.Fatal(s.err)
	}
}

func (s *server) setUp() error {
	if program(s.name) == "" {
		s.gone = s.name + " is not installed; on Debian: apt-get install " + s.packages
		return nil
	}
	dir, err := os.MkdirTemp("", "nfsql")
	if err != nil {
		return err
	}
	s.dir = dir
	s.dsn = strings.ReplaceAll(s.dsn, "DIR", dir)
	if err := s.mkdir("."); err != nil {
		return err
	}
	if err := s.install(s); err != nil {
		return err
	}
	return s.run()
}

// program finds a program of a server, which Debian keeps out of the PATH, or
// returns "".
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return path // PostgreSQL looks for its files beside it
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// credential is another user when this one is root, as which servers refuse to
// run.
func (s *server) credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{s.user, "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return nil
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TMPDIR="+s.dir)
	// The server must not outlive the tests, however they end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential(), Pdeathsig: syscall.SIGKILL}
	return cmd
}

func installPostgres(s *server) error {
	out, err := s.command("initdb", "-D", s.dir+"/data", "-U", "test", "-A", "trust", "-N", "-E", "UTF8", "--no-locale").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func installMariaDB(s *server) error {
	out, err := s.command("mariadb-install-db", "--no-defaults", "--datadir="+s.dir+"/data", "--skip-test-db",
		"--auth-root-authentication-method=normal").CombinedOutput()
	if err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return s.mkdir("data/test") // a database is a folder
}

// mkdir makes a folder that belongs to the server.
func (s *server) mkdir(name string) error {
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	if c := s.credential(); c != nil {
		return os.Chown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// run starts the server's process and waits until it answers.
func (s *server) run() error {
	cmd := s.command(s.name, strings.Fields(strings.ReplaceAll(s.args, "DIR", s.dir))...)
	s.said.Reset()
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is about the thread that starts it
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	db, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for db.PingContext(ctx) != nil {
		select {
		case <-ended:
			return fmt.Errorf("%s has ended:\n%s", s.name, s.said.String())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer", s.name)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// signal sends a signal to the server and its children.
func (s *server) signal(sig syscall.Signal) {
	for _, pid := range append([]int{s.cmd.Process.Pid}, children(s.cmd.Process.Pid)...) {
		_ = syscall.Kill(pid, sig)
	}
}

// children are the processes whose parent is pid.
func children(pid int) []int {
	var list []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// After the name, which may hold anything: state and parent.
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			list = append(list, n)
		}
	}
	return list
}

// kill ends the server as a crash of its processes does.
func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	<-s.ended
}

func (s *server) remove() {
	if s.cmd != nil {
		s.kill()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}
