//! Reads for a command whose user may lack permissions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use weft_plan::{Kind, ObjectKey};

use crate::api_server::cluster::{Cluster, Error};

/// A part of the cluster that the user may not read: a kind, and the namespace or the whole
/// cluster.
pub type Unread = (Kind, Option<String>);

/// Reads a cluster for a user.
///
/// A strict reader fails where the user lacks a permission. A tolerant reader finds nothing there
/// and remembers it, so that the command can name it.
#[derive(Clone)]
pub struct Reader {
    cluster: Cluster,
    is_tolerant: bool,
    unread: Arc<Mutex<BTreeMap<Unread, String>>>,
}

/// The objects of a kind that a cluster may lack.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// The objects.
    Objects(Vec<Value>),
    /// The cluster does not serve the kind.
    NotServed,
    /// The cluster serves the kind, and the user may not read it.
    NotPermitted,
}

impl Reader {
    /// Returns a reader that fails where a permission is missing.
    pub fn strict(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.clone(),
            is_tolerant: false,
            unread: Arc::default(),
        }
    }

    /// Returns a reader that finds nothing where a permission is missing.
    pub fn tolerant(cluster: &Cluster) -> Self {
        Self {
            is_tolerant: true,
            ..Self::strict(cluster)
        }
    }

    /// Returns the parts of the cluster that the user may not read, as far as anything has asked
    /// for them, each with the API server's message.
    pub fn unread(&self) -> BTreeMap<Unread, String> {
        self.lock().clone()
    }

    /// Forgets the parts that the user may not read: a look at the cluster begins.
    pub fn begin(&self) {
        self.lock().clear();
    }

    /// Reports whether the user may not read a kind in a namespace or in the whole cluster, if
    /// anything has asked for it.
    pub fn is_unread(&self, kind: Kind, namespace: Option<&str>) -> bool {
        self.lock()
            .contains_key(&(kind, namespace.map(str::to_owned)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Unread, String>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result of a request. `None` if the user may not make it, and the reader
    /// tolerates that.
    fn permitted<T>(
        &self,
        result: Result<T, Error>,
        kind: Kind,
        namespace: Option<&str>,
        is_tolerated: bool,
    ) -> Result<Option<T>, Error> {
        match result {
            Err(Error::Api(status)) if status.code == 403 && is_tolerated => {
                let part = (kind, namespace.map(str::to_owned));
                self.lock().insert(part, status.message);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Returns the objects of a kind, in one namespace or everywhere, that match a query.
    pub async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        query: &str,
    ) -> Result<Vec<Value>, Error> {
        let listed = self.cluster.list(kind, namespace, query).await;
        let listed = self.permitted(listed, kind, namespace, self.is_tolerant)?;
        Ok(listed.unwrap_or_default())
    }

    /// Returns the objects of a kind that the cluster may lack, in one namespace or everywhere.
    ///
    /// The API server denies a request without permission before it looks whether it serves the
    /// kind. So a denied reader asks which kinds the API group has, which every user may.
    pub async fn list_if_served(
        &self,
        kind: Kind,
        namespace: Option<&str>,
    ) -> Result<Listed, Error> {
        match self.cluster.list(kind, namespace, "").await {
            Ok(objects) => Ok(Listed::Objects(objects)),
            Err(error) if error.is_not_found() => Ok(Listed::NotServed),
            Err(Error::Api(status)) if status.code == 403 && self.is_tolerant => {
                if !self.cluster.serves(kind).await? {
                    return Ok(Listed::NotServed);
                }
                self.permitted(Err::<(), _>(Error::Api(status)), kind, namespace, true)?;
                Ok(Listed::NotPermitted)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the objects of a kind everywhere, or none if the user may not read them, whatever
    /// the reader tolerates.
    pub async fn list_if_permitted(&self, kind: Kind) -> Result<Vec<Value>, Error> {
        let listed = self.cluster.list(kind, None, "").await;
        let listed = self.permitted(listed, kind, None, true)?;
        Ok(listed.unwrap_or_default())
    }

    /// Returns the objects of a kind everywhere that match a query, or none if the user may not read
    /// them. Unlike others, they do not count as unread: the answer is complete without them.
    pub async fn list_extra(&self, kind: Kind, query: &str) -> Result<Vec<Value>, Error> {
        match self.cluster.list(kind, None, query).await {
            Err(Error::Api(status)) if status.code == 403 => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Reads an object. `None` if it does not exist.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let found = self.cluster.get(key).await;
        let found = self.permitted(found, key.kind, key.namespace.as_deref(), self.is_tolerant)?;
        Ok(found.flatten())
    }

    /// Reports whether an object exists. `None` if that cannot be known, for example because the
    /// user may not read it.
    pub async fn exists(&self, key: &ObjectKey) -> Option<bool> {
        let found = self.cluster.get_metadata(key).await;
        let found = self.permitted(found, key.kind, key.namespace.as_deref(), true);
        found.ok()?.map(|found| found.is_some())
    }

    /// Reports whether an object exists. `None` if that cannot be known. Unlike others, an object
    /// that the user may not read does not count as unread: the answer is complete without it.
    pub async fn exists_extra(&self, key: &ObjectKey) -> Option<bool> {
        let found = self.cluster.get_metadata(key).await;
        found.ok().map(|found| found.is_some())
    }
}
