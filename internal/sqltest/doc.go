// Package sqltest tests package deadletter/sqlstore with the databases it is
// for: a PostgreSQL and a MariaDB server that the tests start themselves, in a
// folder of their own and on a socket in it, and SQLite within the process. Its
// module keeps the drivers away from who imports the library.
//
// It needs Linux and the programs of the servers, as Debian's packages
// postgresql and mariadb-server bring them. Where a program is missing its tests
// skip and say so, but fail when CI is set in the environment.
//
// It does not test MySQL's own server, which Debian does not have.
package sqltest
