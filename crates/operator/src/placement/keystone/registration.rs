//! The steps in Keystone: look, and change what is not as it is wanted. Each may be repeated at any
//! time, where nothing differs, nothing is written.

use futures::future::try_join_all;
use http::StatusCode;
use serde_json::Value;
use weft_placement::registration::{
    Change, Found, FoundError, PROJECT, ROLES, Wanted, endpoint_query, grant_query,
    next_for_account, next_for_catalogue, next_to_remove, project_query, role_query, service_query,
    user_query,
};

use super::{
    Keystone, KeystoneError,
    client::{Scope, Session},
};

/// Sees to it that the service's user is there, with the password that is wanted and its roles, and
/// that a real token is given for it. To be done before pods get a new password: Keystone knows one
/// at a time.
///
/// # Errors
/// Keystone cannot be asked, refuses, or does not let the user in.
pub async fn account(keystone: &Keystone, wanted: &Wanted) -> Result<Vec<Change>, KeystoneError> {
    let mut found = look_at_account(keystone, wanted).await?;
    let changes = carry_out(keystone, wanted, &mut found, |wanted, found| {
        Ok(next_for_account(wanted, found))
    })
    .await?;
    if let Err(error) = keystone
        .login(&wanted.user, &wanted.password, Scope::Project(PROJECT))
        .await
    {
        return Err(match error {
            KeystoneError::Login {
                status: StatusCode::UNAUTHORIZED,
                ..
            } => KeystoneError::PasswordRefused {
                user: wanted.user.clone(),
            },
            other => other,
        });
    }
    Ok(changes)
}

/// Sees to it that clients find the service in the catalogue of Keystone. To be done once pods
/// answer.
///
/// # Errors
/// Keystone cannot be asked or refuses, or there is more than one where one is meant.
pub async fn catalogue(keystone: &Keystone, wanted: &Wanted) -> Result<Vec<Change>, KeystoneError> {
    let mut found = Found {
        domain: keystone.domain().await?,
        ..Found::default()
    };
    look_at_catalogue(keystone, wanted, &mut found).await?;
    carry_out(keystone, wanted, &mut found, next_for_catalogue).await
}

/// Removes the endpoints of the region, and with the last endpoint the user and the service.
///
/// # Errors
/// Keystone cannot be asked or refuses.
pub async fn remove(keystone: &Keystone, wanted: &Wanted) -> Result<Vec<Change>, KeystoneError> {
    let mut found = Found {
        domain: keystone.domain().await?,
        ..Found::default()
    };
    found.users(&keystone.list(user_query(wanted, &found.domain)).await?)?;
    look_at_catalogue(keystone, wanted, &mut found).await?;
    carry_out(keystone, wanted, &mut found, |wanted, found| {
        Ok(next_to_remove(wanted, found))
    })
    .await
}

async fn look_at_account(keystone: &Keystone, wanted: &Wanted) -> Result<Found, KeystoneError> {
    let mut found = Found {
        domain: keystone.domain().await?,
        ..Found::default()
    };
    let roles = try_join_all(ROLES.map(|role| keystone.list(role_query(role))));
    let (projects, users, roles) = futures::try_join!(
        keystone.list(project_query(&found.domain)),
        keystone.list(user_query(wanted, &found.domain)),
        roles
    )?;
    found.projects(&projects)?;
    found.users(&users)?;
    for (role, list) in ROLES.iter().zip(roles) {
        found.roles(role, &list)?;
    }
    let Some(user) = &found.user else {
        return Ok(found);
    };
    if let Some(project) = &found.project {
        let granted = keystone.list(grant_query(project, &user.id)).await?;
        found.grants(&granted);
    }
    found.knows_password = knows_password(
        keystone
            .login(&wanted.user, &wanted.password, Scope::None)
            .await,
    )?;
    Ok(found)
}

fn knows_password(login: Result<Session, KeystoneError>) -> Result<bool, KeystoneError> {
    match login {
        Ok(_) => Ok(true),
        Err(KeystoneError::Login {
            status: StatusCode::UNAUTHORIZED,
            ..
        }) => Ok(false),
        Err(other) => Err(other),
    }
}

async fn look_at_catalogue(
    keystone: &Keystone,
    wanted: &Wanted,
    found: &mut Found,
) -> Result<(), KeystoneError> {
    let (services, regions) = futures::try_join!(
        keystone.list(service_query()),
        keystone.list(("/regions".to_owned(), "regions"))
    )?;
    found.services(&services)?;
    found.regions(wanted, &regions)?;
    if let Some(service) = &found.service {
        let endpoints = keystone.list(endpoint_query(&service.id)).await?;
        found.endpoints(&endpoints)?;
    }
    Ok(())
}

async fn carry_out(
    keystone: &Keystone,
    wanted: &Wanted,
    found: &mut Found,
    next: impl Fn(&Wanted, &Found) -> Result<Option<Change>, FoundError>,
) -> Result<Vec<Change>, KeystoneError> {
    let mut changes = Vec::new();
    while let Some(change) = next(wanted, found)? {
        let request = change.request(wanted, found);
        let answer = match keystone
            .request(
                request.method,
                &request.path,
                request.body.as_ref(),
                &[&wanted.password],
            )
            .await
        {
            Ok((_, answer)) => answer,
            // Another user has deleted it meanwhile, or an attempt whose answer was lost.
            Err(KeystoneError::Refused {
                status: StatusCode::NOT_FOUND,
                ..
            }) if request.method == "DELETE" => Value::Null,
            Err(error) => return Err(error),
        };
        found.learn(&change, &answer)?;
        changes.push(change);
    }
    Ok(changes)
}
