//! The files for Placement and Apache: the content of the Secret `<name>-config-data`.
//!
//! A value of another user's is never put into a text as it is: into placement.conf it goes
//! through [`Ini`], and httpd.conf holds none but the namespace and a number.

use std::{collections::BTreeMap, fmt::Write};

use weft_api::placement::{ENDPOINTS, POLICY_FILE};

use crate::{
    config::Config,
    ini::{self, Ini, IniError},
    inputs::{Credentials, Inputs},
};

/// Where the Secret is mounted as a whole.
pub const FOLDER: &str = "/var/lib/openstack/config";
/// Where the certificates of the system are, which the bundle replaces.
pub const CA_BUNDLE: &str = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem";
/// Where those for an external Keystone are.
pub const KEYSTONE_CA_BUNDLE: &str = "/etc/placement/keystone-ca-bundle.pem";
/// The port of the pods and of both Services.
pub const PORT: u16 = 8778;

/// All files, by name.
///
/// # Errors
/// A value has a control character.
pub fn files(config: &Config, inputs: &Inputs) -> Result<BTreeMap<&'static str, String>, IniError> {
    let spec = config.spec();
    let mut files = BTreeMap::from([
        ("placement.conf", placement_conf(config, inputs)?),
        (
            "custom.conf",
            ini::with_section(spec.custom_service_config.as_deref().unwrap_or_default()),
        ),
        ("my.cnf", my_cnf(inputs)),
        ("httpd.conf", httpd_conf(config)),
        ("ssl.conf", SSL_CONF.to_owned()),
        ("placement-api.wsgi", WSGI.to_owned()),
    ]);
    if let Some(policy) = spec
        .default_config_overwrite
        .as_ref()
        .and_then(|files| files.get(POLICY_FILE))
    {
        files.insert(POLICY_FILE, policy.clone());
    }
    Ok(files)
}

/// The entry of Placement: a function that all its releases have, where the script that came with
/// older ones does not.
const WSGI: &str =
    "from placement.wsgi import init_application\n\napplication = init_application()\n";

fn placement_conf(config: &Config, inputs: &Inputs) -> Result<String, IniError> {
    let mut ini = Ini::default();
    // To stderr, which Apache takes for its log of errors, and the container for its own.
    ini.section("DEFAULT")
        .plain("debug", "false")
        .plain("use_stderr", "true");
    ini.section("placement_database").value(
        "connection",
        &inputs.database.url()?,
        "the address of the database",
    )?;
    ini.section("api").plain(
        "auth_strategy",
        if config.authenticates() {
            "keystone"
        } else {
            "noauth2"
        },
    );
    if let Some((keystone, credentials)) =
        inputs.keystone.as_ref().filter(|_| config.authenticates())
    {
        ini.section("keystone_authtoken");
        ini.value(
            "www_authenticate_uri",
            &keystone.public,
            "the public address of Keystone",
        )?;
        ini.value(
            "auth_url",
            &keystone.internal,
            "the internal address of Keystone",
        )?;
        match credentials {
            Credentials::Password(password) => {
                ini.plain("auth_type", "password");
                ini.value("username", config.service_user(), "spec.serviceUser")?;
                let secret = config.spec().secret.as_deref().unwrap_or_default();
                ini.value(
                    "password",
                    password,
                    &format!("key {} of Secret {secret}", config.password_key()),
                )?;
                ini.plain("user_domain_name", "Default")
                    .plain("project_domain_name", "Default")
                    .plain("project_name", "service");
            }
            Credentials::Application { id, secret } => {
                ini.plain("auth_type", "v3applicationcredential");
                ini.value(
                    "application_credential_id",
                    id,
                    "key AC_ID of the application credential",
                )?;
                ini.value(
                    "application_credential_secret",
                    secret,
                    "key AC_SECRET of the application credential",
                )?;
            }
        }
        if let Some(region) = &keystone.region {
            ini.value("region_name", region, "the region of Keystone")?;
        }
        // The name of the service in access rules of application credentials.
        ini.plain("interface", "internal")
            .plain("service_type", "placement");
        if config.keystone_ca_bundle().is_some() {
            ini.plain("cafile", KEYSTONE_CA_BUNDLE);
        }
    }
    ini.section("oslo_policy")
        .plain("policy_file", "/etc/placement/policy.yaml");
    Ok(ini.into_text())
}

/// PyMySQL encrypts, and verifies the server, when the file names certificates. The switch `ssl` is
/// for programs of MariaDB.
fn my_cnf(inputs: &Inputs) -> String {
    if inputs.database_tls {
        format!("[client]\nssl-ca={CA_BUNDLE}\nssl=1\n")
    } else {
        "[client]\nssl=0\n".to_owned()
    }
}

/// No run-time file is under /run, which belongs to root: Apache runs as the user of Placement from
/// its start.
fn httpd_conf(config: &Config) -> String {
    let tls = config.certificates().is_some();
    let mut text = format!(
        "ServerRoot \"/etc/httpd\"\n\
         ServerName localhost.localdomain\n\
         ServerTokens Prod\n\
         ServerSignature Off\n\
         TraceEnable Off\n\
         DefaultRuntimeDir /tmp\n\
         PidFile /tmp/httpd.pid\n\
         User placement\n\
         Group placement\n\
         Listen {PORT}\n\
         Include conf.modules.d/*.conf\n\
         TypesConfig /etc/mime.types\n\
         WSGISocketPrefix /tmp/wsgi\n\
         TimeOut {timeout}\n\
         \n\
         ErrorLog /dev/stderr\n\
         ErrorLogFormat \"%M\"\n\
         LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\" combined\n\
         LogFormat \"%{{X-Forwarded-For}}i %l %u %t \\\"%r\\\" %>s %b \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\" proxy\n\
         SetEnvIf X-Forwarded-For \".\" forwarded\n\
         CustomLog /dev/stdout combined env=!forwarded\n\
         CustomLog /dev/stdout proxy env=forwarded\n",
        timeout = config.api_timeout(),
    );
    if tls {
        text.push_str("\nInclude conf.d/ssl.conf\n");
    }
    let _ = write!(
        text,
        "\n<Directory \"{FOLDER}\">\n  Require all granted\n</Directory>\n"
    );
    for endpoint in ENDPOINTS {
        let _ = write!(
            text,
            "\n<VirtualHost *:{PORT}>\n  ServerName placement-{endpoint}.{}.svc\n  \
             WSGIDaemonProcess {endpoint} display-name={endpoint} processes=3 threads=1\n  \
             WSGIProcessGroup {endpoint}\n  \
             WSGIApplicationGroup %{{GLOBAL}}\n  \
             WSGIPassAuthorization On\n  \
             WSGIScriptAlias / {FOLDER}/placement-api.wsgi\n",
            config.namespace
        );
        if tls {
            let _ = write!(
                text,
                "  SSLEngine on\n  SSLCertificateFile \"/etc/pki/tls/certs/{endpoint}.crt\"\n  SSLCertificateKeyFile \"/etc/pki/tls/private/{endpoint}.key\"\n",
            );
        }
        text.push_str("</VirtualHost>\n");
    }
    text
}

const SSL_CONF: &str = "SSLProtocol -all +TLSv1.2 +TLSv1.3\n\
    SSLCipherSuite HIGH:MEDIUM:!aNULL:!MD5:!RC4:!3DES\n\
    SSLHonorCipherOrder on\n\
    SSLSessionCache \"shmcb:/tmp/ssl_scache(512000)\"\n\
    SSLSessionCacheTimeout 300\n";
