#!/bin/sh
# The part of the entrypoint of MariaDB's image that the tutorial of Placement uses: an empty database, and an account with all rights on it.
set -eu
data=/var/lib/mysql
mkdir -p "$data" /run/mysqld
if [ ! -d "$data/mysql" ]; then
  mariadb-install-db --no-defaults --user=root "--datadir=$data" --auth-root-authentication-method=socket --skip-test-db --force >/dev/null
fi
# text VALUE: as a string of SQL
text() { printf '%s\n' "$1" | sed "s/[\\\\']/\\\\&/g; s/.*/'&'/"; }
user="$(text "$MARIADB_USER")@'%'"
# The server runs it before it accepts connections, each line as a statement.
cat >/run/mysqld/init.sql <<SQL
CREATE DATABASE IF NOT EXISTS \`$MARIADB_DATABASE\` CHARACTER SET utf8 COLLATE utf8_general_ci;
CREATE OR REPLACE USER $user IDENTIFIED BY $(text "$MARIADB_PASSWORD");
GRANT ALL PRIVILEGES ON \`$MARIADB_DATABASE\`.* TO $user;
SQL
exec mariadbd --no-defaults --user=root "--datadir=$data" --socket=/run/mysqld/mysqld.sock --port=3306 --init-file=/run/mysqld/init.sql
