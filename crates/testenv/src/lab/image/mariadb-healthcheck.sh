#!/bin/sh
# Reports whether the server accepts connections. The original takes options for further conditions.
exec mariadb --no-defaults --socket=/run/mysqld/mysqld.sock --execute "SELECT 1"
