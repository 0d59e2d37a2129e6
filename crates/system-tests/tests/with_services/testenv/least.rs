//! The least configuration that the services run with. It stands for no configuration of Weft's.

use std::fs;
use std::path::Path;

use weft_testenv::services::{Container, MariaDb, Site};

pub const DATABASE: &str = "openstack.default.svc";
/// With what breaks a URL, an INI file or SQL that does not escape it.
pub const PASSWORD: &str = r#"p@ss/w$r:d'%41\""#;
pub const DATABASE_URL: &str =
    "mysql+pymysql://placement:p%40ss%2Fw%24r%3Ad%27%2541%5C%22@openstack.default.svc/placement";
pub const ADMIN: [&str; 2] = [
    "x-auth-token: admin",
    "openstack-api-version: placement 1.39",
];

/// The least configuration that Placement runs with: these files in a folder `name`, as a pod has
/// them.
pub fn least_configuration(site: &Site, name: &str, api: &str) -> Container {
    let folder = site.dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    // In an INI file of oslo.config, `$` begins a reference.
    let url = DATABASE_URL.replace('$', "$$");
    fs::write(
        folder.join("placement.conf"),
        format!("[placement_database]\nconnection = {url}\n{api}"),
    )
    .unwrap();
    fs::write(folder.join("httpd.conf"), least_httpd("")).unwrap();
    container(&folder)
}

pub fn container(folder: &Path) -> Container {
    Container::placement()
        .unwrap()
        .mount(
            folder.join("placement.conf"),
            "/etc/placement/placement.conf",
        )
        .mount(folder.join("httpd.conf"), "/etc/httpd/conf/httpd.conf")
}

pub fn least_httpd(tls: &str) -> String {
    format!(
        "ServerRoot /etc/httpd\nServerName placement\nInclude conf.modules.d/*.conf\nListen 8778\nUser placement\nGroup placement\n\
         PidFile /run/httpd.pid\nErrorLog /dev/stderr\n<Directory />\n  Require all granted\n</Directory>\n\
         <VirtualHost *:8778>\n  WSGIDaemonProcess placement processes=2 threads=1 user=placement group=placement\n\
         WSGIProcessGroup placement\n  WSGIApplicationGroup %{{GLOBAL}}\n  WSGIPassAuthorization On\n\
         WSGIScriptAlias / /usr/bin/placement-api\n{tls}</VirtualHost>\n"
    )
}

pub const NO_AUTH: &str = "[api]\nauth_strategy = noauth2\n";
pub const HTTPD: [&str; 2] = ["/usr/sbin/httpd", "-DFOREGROUND"];

/// Of MariaDB, with an account for Placement.
pub async fn database(site: &Site) -> MariaDb {
    let database = MariaDb::start(site).await.unwrap();
    database
        .create("placement", "placement", PASSWORD)
        .await
        .unwrap();
    database
}
