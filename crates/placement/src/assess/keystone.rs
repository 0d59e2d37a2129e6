//! Keystone: where it is, and that the service is registered there.

use weft_operands::problems::given;
use weft_plan::kinds;

use super::{End, Pending, Walk, credentials::Direct, told};
use crate::{
    Config, KeystoneEndpoints,
    conditions::{State, Step},
    peers::keystone,
    validate::Registration,
    world::World,
};

/// Reports whether keystone-operator registers the service: then there is something to be released
/// once the PlacementAPI goes.
pub fn is_operated(config: &Config) -> bool {
    config.authenticates() && config.registration == Registration::Operator
}

/// Where Keystone is. Nothing with `auth.strategy: noauth2`.
///
/// # Errors
/// It is not known yet.
pub fn endpoints(config: &Config, world: &dyn World) -> Result<Option<KeystoneEndpoints>, Pending> {
    if !config.authenticates() {
        return Ok(None);
    }
    let Some(external) = config
        .spec()
        .keystone
        .as_ref()
        .and_then(|keystone| keystone.external.as_ref())
    else {
        let all =
            told(Step::ServiceConfig, world.selected(kinds::KEYSTONE_API, ""))?.unwrap_or_default();
        return Ok(Some(keystone::endpoints(
            config,
            world.serves(kinds::KEYSTONE_API),
            &all,
        )?));
    };
    Ok(Some(KeystoneEndpoints {
        public: given(&external.www_authenticate_uri)
            .unwrap_or(&external.auth_url)
            .to_owned(),
        internal: external.auth_url.clone(),
        region: given(&external.region).map(str::to_owned),
    }))
}

impl Walk<'_> {
    /// The service and its endpoints in Keystone, once it answers.
    pub(super) fn registration(&mut self, direct: Option<&Direct>) -> Result<(), End> {
        if let Some(direct) = direct {
            return self.registered_endpoints(direct);
        }
        // If this operator registers it later, it looks at everything.
        (
            self.assessment.found.account_hash,
            self.assessment.found.catalogue_hash,
        ) = (Some(String::new()), Some(String::new()));
        if is_operated(self.config) {
            return self.registration_by_operator();
        }
        let state = State::ready(if self.config.authenticates() {
            "Registered by others: keystone.registration is None"
        } else {
            "Not registered: auth.strategy is noauth2"
        });
        for step in [Step::KeystoneService, Step::KeystoneEndpoint] {
            self.assessment.steps.set(step, state.clone());
        }
        Ok(())
    }

    /// By keystone-operator. Both are asked for at once: it makes endpoints when the service is
    /// there.
    fn registration_by_operator(&mut self) -> Result<(), End> {
        let mut end = Ok(());
        for (step, kind, wanted) in [
            (
                Step::KeystoneService,
                kinds::KEYSTONE_SERVICE,
                keystone::service(self.config),
            ),
            (
                Step::KeystoneEndpoint,
                kinds::KEYSTONE_ENDPOINT,
                keystone::endpoint(self.config),
            ),
        ] {
            if !self.world.serves(kind) {
                let why = format!(
                    "the cluster has no kind {}: install keystone-operator, or say in spec.keystone who registers the service",
                    kind.kind
                );
                self.take(
                    step,
                    Err(State {
                        message: step.fails(why).message,
                        ..State::requested("")
                    }
                    .into()),
                )?;
            }
            let wanted = self.take(step, wanted.map_err(|error| step.fails(error).into()))?;
            let said = self
                .make(step, wanted)
                .map(|live| keystone::registered(&live));
            match said {
                Ok(Some(state)) => self.assessment.steps.set(step, state),
                // Nothing yet: it says itself that it has not begun.
                Ok(None) => {}
                Err(End) => end = Err(End),
            }
        }
        end
    }
}
