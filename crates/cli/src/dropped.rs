//! The fields that the API server of a cluster drops, because it has the definitions of another
//! version of Weft, or of the operators that Weft replaces.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;
use weft_plan::{Kind, dropped, kinds, text};
use weft_runtime::{api_server::cluster::Error, inspect::reader::Reader};

use crate::{
    domains::{self, Entry},
    online::{Online, Site},
    reinstall::Reinstall,
};

/// Returns the message about the fields that get lost by the definitions of a domain, with the
/// command that ends it: that of the tool that has installed the operator. `None` if none do, or the
/// user may not read definitions.
///
/// # Errors
/// The API server refuses a request for another reason.
pub async fn notice(reader: &Reader, site: &Site) -> Result<Option<String>, Error> {
    let mut all = Vec::new();
    for shipped in site.entry.shipped() {
        if let Some(served) = served(reader, shipped.kind).await? {
            all.push((shipped.kind, shipped.dropped_by(&served)));
        }
    }
    all.retain(|(_, fields)| !fields.is_empty());
    let operator = site.operator.as_ref();
    let installed = operator.map(Reinstall::of).unwrap_or_default();
    Ok(dropped::notice_with(
        &all,
        &installed.definitions(site.entry.name),
    ))
}

/// Reads the definition of a kind, if the cluster has it and the user may read it.
async fn served(reader: &Reader, kind: Kind) -> Result<Option<Value>, Error> {
    let query = format!("fieldSelector=metadata.name={}", kind.definition());
    let found = reader.list_extra(kinds::CUSTOM_RESOURCE_DEFINITION, &query);
    Ok(found.await?.into_iter().next())
}

/// Takes out of objects what the API server would drop. It reads each definition once.
pub struct Pruner<'a> {
    online: &'a Online,
    reader: Reader,
    served: BTreeMap<Kind, Option<Value>>,
}

impl<'a> Pruner<'a> {
    /// Returns a pruner that has read no definition.
    pub fn new(online: &'a Online) -> Self {
        Self {
            online,
            reader: Reader::tolerant(&online.cluster),
            served: BTreeMap::new(),
        }
    }

    /// Takes the fields out of an object that the API server would drop when the object is applied.
    /// Returns a note about them. The status of an object that users apply is ignored anyway.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn prune(&mut self, object: &mut Value) -> Result<Option<String>> {
        let kind = Kind::find(text(object, "apiVersion"), text(object, "kind"));
        let Some((kind, entry)) = kind.and_then(|kind| Some((kind, owner(kind)?))) else {
            return Ok(None);
        };
        let known = match self.served.remove(&kind) {
            Some(known) => known,
            None => served(&self.reader, kind)
                .await
                .map_err(|error| self.online.explain(error))?,
        };
        let mut lost = known
            .as_ref()
            .map(|served| dropped::prune(served, object))
            .unwrap_or_default();
        self.served.insert(kind, known);
        lost.retain(|path| !(path == "status" || path.starts_with("status.")));
        Ok((!lost.is_empty()).then(|| {
            format!(
                "the API server would drop {}, because {} in the cluster is of another version or of another operator. The plan leaves these fields out. Apply the definitions of this version first: {}",
                dropped::some(&lost),
                kind.definition(),
                dropped::way_out(entry.name)
            )
        }))
    }
}

/// The domain that a kind belongs to.
fn owner(kind: Kind) -> Option<&'static Entry> {
    domains::ALL.iter().find(|entry| {
        let mut shipped = entry.shipped().into_iter();
        shipped.any(|shipped| shipped.kind == kind)
    })
}
