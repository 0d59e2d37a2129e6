//! The protocol of Open vSwitch's database (RFC 7047), as far as it is needed: one transaction over
//! a connection of its own.

use std::{
    io::{self, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::{Deserializer, Value, json};

/// Where ovsdb-server listens. NetworkManager and nmstate ask there, and nowhere else.
pub const SOCKET: &str = "/run/openvswitch/db.sock";

/// How long the server may take to read, and to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a transaction was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to the database server failed.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The text is not a valid answer.
    #[error("the answer cannot be read: {0}")]
    Answer(#[from] serde_json::Error),
    /// The server's words.
    #[error("{0}")]
    Refused(Value),
}

/// Carries out operations (section 5.2), all of them or none, and returns the result of each.
/// `None` if no server listens there.
///
/// # Errors
/// The server cannot be asked, or refuses one of them.
pub fn transact(socket: &Path, operations: &[Value]) -> Result<Option<Vec<Value>>, Error> {
    let mut stream = match UnixStream::connect(socket) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        connected => connected?,
    };
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let params: Vec<Value> = [json!("Open_vSwitch")]
        .into_iter()
        .chain(operations.iter().cloned())
        .collect();
    stream.write_all(
        json!({"method": "transact", "id": 0, "params": params})
            .to_string()
            .as_bytes(),
    )?;
    for message in Deserializer::from_reader(BufReader::new(stream)).into_iter::<Value>() {
        let mut message = message?;
        // The server may ask whether anybody is there (section 4.1.11). The connection is over
        // before it wants to know.
        if message.get("method").is_none() {
            return results(&mut message).map(Some);
        }
    }
    Err(io::Error::from(ErrorKind::UnexpectedEof).into())
}

/// The results in the answer (section 4.1.3). An operation that fails has an `error`, and so has
/// one more at the end if the commit does.
fn results(answer: &mut Value) -> Result<Vec<Value>, Error> {
    let Value::Array(results) = answer["result"].take() else {
        return Err(Error::Refused(answer["error"].take()));
    };
    match results.iter().find(|result| result.get("error").is_some()) {
        Some(refused) => Err(Error::Refused(refused.clone())),
        None => Ok(results),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn results_are_those_of_operations_that_were_all_carried_out() {
        let results =
            |answer: Value| super::results(&mut answer.clone()).map_err(|error| error.to_string());
        let rows = json!({"rows": [{"name": "br1"}]});
        assert_eq!(
            results(json!({"id": 0, "error": null, "result": [rows, {"count": 1}]})).unwrap(),
            [rows.clone(), json!({"count": 1})]
        );
        let refused = json!({
            "id": 0, "error": null,
            "result": [rows, {"error": "timed out", "details": "\"wait\" timed out"}, null]
        });
        assert!(results(refused).unwrap_err().contains("timed out"));
        assert!(
            results(
                json!({"id": 0, "error": null, "result": [{}, {"error": "constraint violation"}]})
            )
            .is_err(),
            "of the commit"
        );
        assert_eq!(
            results(json!({"id": 0, "error": "unknown database", "result": null})).unwrap_err(),
            "\"unknown database\""
        );
    }

    #[test]
    fn a_socket_without_a_server_is_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("db.sock");
        assert!(transact(&socket, &[]).unwrap().is_none());
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        // A process that another test forks at this moment holds the socket as well until it runs
        // its own program. A socket that is shut down refuses connections in all processes.
        UnixStream::from(std::os::fd::OwnedFd::from(listener))
            .shutdown(std::net::Shutdown::Both)
            .unwrap();
        assert!(
            transact(&socket, &[]).unwrap().is_none(),
            "one that has ended leaves its socket behind"
        );
    }
}
