//! MariaDB, as a Service of a cluster leads to it.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::program::Program;

use super::Site;

/// The port of the server.
pub const PORT: u16 = 3306;

/// A server with data of its own on port 3306 of its [`Site`]. Its root comes by the socket,
/// everybody else with a password. MariaDB, which is killed on drop.
#[derive(Debug)]
pub struct MariaDb {
    site: Site,
    server: Option<Program>,
}

impl MariaDb {
    /// Makes an empty server and starts it.
    ///
    /// # Errors
    /// It does not start: the error shows the end of its log.
    pub async fn start(site: &Site) -> Result<Self> {
        let data = format!("--datadir={}", site.dir().join("mariadb").display());
        std::fs::create_dir(site.dir().join("mariadb-tmp"))?;
        let temporary = temporary(site);
        let words = [
            "mariadb-install-db",
            "--no-defaults",
            "--user=root",
            &data,
            &temporary,
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
        ];
        site.exec(&words, "")
            .await
            .context("making MariaDB's data")?;
        let mut database = Self {
            site: site.clone(),
            server: None,
        };
        database.resume().await?;
        Ok(database)
    }

    /// Starts it again after [`stop`](Self::stop).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn resume(&mut self) -> Result<()> {
        let folder = self.site.dir().join("mariadb");
        let command: Vec<String> = [
            "mariadbd".into(),
            "--no-defaults".into(),
            "--user=root".into(),
            format!("--datadir={}", folder.display()),
            temporary(&self.site),
            format!("--socket={}", self.socket()),
            "--bind-address=127.0.0.1".into(),
            format!("--port={PORT}"),
            // The server does not protect commits against a crash of the machine. Tests do not need
            // it, and it costs most of the time.
            "--innodb-flush-log-at-trx-commit=0".into(),
        ]
        .into();
        let server = self
            .server
            .insert(self.site.spawn_bare("mariadbd", &command)?);
        let socket = format!(
            "--socket={}",
            folder.with_file_name("mariadb.sock").display()
        );
        let site = &self.site;
        let select = ["mariadb", "--no-defaults", &socket, "--execute=SELECT 1"];
        server
            .wait_ready(Duration::from_millis(20), async || {
                let answer = site.exec(&select, "").await;
                answer.map(drop).map_err(|error| format!("{error:#}"))
            })
            .await
    }

    /// Ends it by SIGKILL, as a crash does. The data stays.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Creates a database and an account, with any password, that has all rights on it and none
    /// besides: as mariadb-operator does.
    ///
    /// # Errors
    /// They are refused.
    pub async fn create(&self, database: &str, user: &str, password: &str) -> Result<()> {
        let (database, user, password) = (name(database), text(user), text(password));
        let sql = format!(
            "CREATE DATABASE IF NOT EXISTS {database} CHARACTER SET utf8 COLLATE utf8_general_ci;
             CREATE OR REPLACE USER {user}@'%' IDENTIFIED BY {password};
             GRANT ALL PRIVILEGES ON {database}.* TO {user}@'%';"
        );
        self.query(&sql).await.map(drop)
    }

    /// Runs SQL as root and returns the rows: fields with tabs between them, a row a line.
    ///
    /// # Errors
    /// It is refused: the error is the server's.
    pub async fn query(&self, sql: &str) -> Result<String> {
        let socket = format!("--socket={}", self.socket());
        self.site
            .exec(
                &[
                    "mariadb",
                    "--no-defaults",
                    "--batch",
                    "--skip-column-names",
                    &socket,
                ],
                sql,
            )
            .await
    }

    fn socket(&self) -> String {
        self.site.dir().join("mariadb.sock").display().to_string()
    }
}

/// Its temporary files are named by its process, and in another site another process has the same
/// number.
fn temporary(site: &Site) -> String {
    format!("--tmpdir={}", site.dir().join("mariadb-tmp").display())
}

/// An identifier: a backtick in it is doubled.
fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A string literal: backslash and quote are escaped by a backslash.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
