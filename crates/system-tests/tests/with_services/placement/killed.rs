//! The Job killed half way: MariaDB commits each statement that changes a schema by itself, so what
//! is there is neither the old release nor the new.

use k8s_openapi::api::core::v1::PodSpec;
use weft_placement::objects::preparation;
use weft_testenv::services::{Container, MariaDb, Site};

use crate::with_services::placement::{
    HOST, PASSWORD, config, database, inputs, keep, pod, prepare, words,
};

/// Read by Python at its start: kills it by SIGKILL as soon as so many statements that change the
/// schema are done.
const KILLER: &str = r#"
import os, signal
from sqlalchemy import event
from sqlalchemy.engine import Engine

left = int(os.environ["STATEMENTS"])


@event.listens_for(Engine, "after_cursor_execute")
def count(connection, cursor, statement, *_):
    global left
    if statement.split()[0] in ("CREATE", "ALTER", "DROP"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
"#;

struct Cloud {
    site: Site,
    database: MariaDb,
    job: PodSpec,
}

impl Cloud {
    async fn start() -> Self {
        let (config, inputs) = (config(), inputs());
        let site = Site::start(&[HOST]).unwrap();
        let database = database(&site).await;
        keep(&site, &config, &inputs);
        std::fs::create_dir(site.dir().join("killer")).unwrap();
        std::fs::write(site.dir().join("killer/sitecustomize.py"), KILLER).unwrap();
        Self {
            site,
            database,
            job: pod(&preparation(&config, &inputs).unwrap()),
        }
    }

    fn first_step(&self) -> (Container, Vec<String>) {
        self.site
            .container(&self.job, &self.job.init_containers.as_ref().unwrap()[0])
            .unwrap()
    }

    /// Its first step, killed after so many statements, on an empty database. Was it, or did it
    /// come to its end?
    async fn is_killed_after(&self, statements: usize) -> bool {
        self.database
            .query("DROP DATABASE placement")
            .await
            .unwrap();
        self.database
            .create("placement", "placement", PASSWORD)
            .await
            .unwrap();
        let (container, command) = self.first_step();
        let container = container
            .mount(self.site.dir().join("killer"), "/killer")
            .env("PYTHONPATH", "/killer")
            .env("STATEMENTS", &statements.to_string());
        let output = self
            .site
            .output(&container, &words(&command))
            .await
            .unwrap();
        assert!(!output.stderr.contains("Traceback"), "{}", output.stderr);
        !output.status.success()
    }

    /// The same step to its end, on what is there.
    async fn synchronise(&self) {
        let (container, command) = self.first_step();
        self.site.run(&container, &words(&command)).await.unwrap();
    }

    /// All tables with their columns, keys and indexes, and the revision.
    async fn schema(&self) -> String {
        let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'placement' ORDER BY table_name";
        let tables = self.database.query(tables).await.unwrap();
        let show: String = tables
            .lines()
            .map(|table| format!("SHOW CREATE TABLE placement.{table};\n"))
            .collect();
        self.database
            .query(&format!(
                "{show}SELECT version_num FROM placement.alembic_version;"
            ))
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_job_that_was_killed_half_way_goes_on_where_it_was() {
    let cloud = Cloud::start().await;
    cloud.synchronise().await;
    let whole = cloud.schema().await;
    // One table is there. Five. Ten. A foreign key, and the index that is to replace its own is
    // not. Three of five indexes have gone.
    for statements in [2, 15, 25, 30, 34] {
        assert!(
            cloud.is_killed_after(statements).await,
            "there are no {statements} statements"
        );
        assert_ne!(
            cloud.schema().await,
            whole,
            "{statements} statements are all"
        );
        cloud.synchronise().await;
        assert_eq!(cloud.schema().await, whole, "after {statements} statements");
    }
    prepare(&cloud.site, &config(), &inputs()).await.unwrap();
}

/// A missing part is no finished work.
#[tokio::test]
async fn other_database_errors_end_the_job_as_usual() {
    let cloud = Cloud::start().await;
    assert!(cloud.is_killed_after(28).await);
    cloud
        .database
        .query("DROP TABLE placement.consumers")
        .await
        .unwrap();
    let (container, command) = cloud.first_step();
    let output = cloud
        .site
        .output(&container, &words(&command))
        .await
        .unwrap();
    assert!(
        !output.status.success()
            && output
                .stderr
                .contains("Table 'placement.consumers' doesn't exist"),
        "{output:?}"
    );
}

mod long {
    use super::Cloud;

    #[tokio::test]
    async fn it_may_be_killed_after_any_statement() {
        let cloud = Cloud::start().await;
        cloud.synchronise().await;
        let whole = cloud.schema().await;
        let mut statements = 1;
        while cloud.is_killed_after(statements).await {
            cloud.synchronise().await;
            assert_eq!(cloud.schema().await, whole, "after {statements} statements");
            statements += 1;
        }
        assert!(statements > 30, "the schema is changed {statements} times");
    }
}
