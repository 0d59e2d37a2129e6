//! The account of a command that changes a cluster: a line for each step when it is done, or one
//! JSON document at the end.

use std::cell::RefCell;

use anyhow::Result;
use serde_json::{Value, json};
use weft_plan::ObjectKey;

use crate::output::{self, Style};

/// The form of an account.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines for people.
    Text,
    /// One JSON document.
    Json,
}

/// The effect of a step on its object, in the words of `weft plan -o json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object is deleted.
    Delete,
    /// The object remains, without Weft's marks.
    Release,
    /// Fields of the object get values.
    Change,
    /// The object remains as it is.
    Stay,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Release => "release",
            Self::Change => "change",
            Self::Stay => "stay",
        }
    }
}

/// One action on one object.
#[derive(Clone, Debug)]
pub struct Step {
    action: Action,
    object: ObjectKey,
    why: Option<String>,
    is_done: bool,
}

impl Step {
    /// A step that is still to be done.
    pub fn new(action: Action, object: &ObjectKey) -> Self {
        Self {
            action,
            object: object.clone(),
            why: None,
            is_done: false,
        }
    }

    /// Adds the reason, or the part of the object that the step is about.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    fn is_about(&self, other: &Self) -> bool {
        self.action == other.action && self.object == other.object
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "action": self.action.word(),
            "apiVersion": self.object.kind.api_version(),
            "kind": self.object.kind.kind,
            "name": self.object.name,
        });
        if let Some(namespace) = &self.object.namespace {
            json["namespace"] = namespace.clone().into();
        }
        if let Some(why) = &self.why {
            json["why"] = why.clone().into();
        }
        if self.action != Action::Stay {
            json["done"] = self.is_done.into();
        }
        json
    }
}

/// The end of a command that has found out what there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There is nothing to do.
    Nothing,
    /// The user only wanted to see the steps, or does not agree to them.
    Unchanged,
    /// All steps are done. The word is the verdict about that.
    Done(&'static str),
}

/// The steps of a command. Its methods take `&self`, because a step and the wait for its end both
/// report here.
pub struct Account {
    format: Format,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    domains: Vec<&'static str>,
    steps: Vec<Step>,
    notes: Vec<String>,
    waits_for: Option<String>,
    has_written: bool,
}

impl Account {
    /// An account without steps.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            state: RefCell::default(),
        }
    }

    /// Returns true if the account is one JSON document.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Replaces the steps by these, which are all still to be done in these domains.
    pub fn plan(
        &self,
        domains: impl IntoIterator<Item = &'static str>,
        steps: impl IntoIterator<Item = Step>,
    ) {
        let mut state = self.state.borrow_mut();
        state.domains = domains.into_iter().collect();
        state.steps = steps.into_iter().collect();
    }

    /// Prints text for a person: to stderr if stdout is for the JSON document.
    ///
    /// # Errors
    /// The text cannot be written to stdout.
    pub fn show(&self, text: &str) -> Result<()> {
        if self.is_json() {
            output::say_here(text);
            return Ok(());
        }
        output::print(text)
    }

    /// Reports a write that is not one whole step: the beginning of a step, or the sum of several.
    ///
    /// # Errors
    /// The line cannot be written to stdout.
    pub fn wrote(&self, verb: &str, words: &str) -> Result<()> {
        self.state.borrow_mut().has_written = true;
        self.line(verb, words)
    }

    /// Reports that a step is done. `words` describe it to people behind the verb.
    ///
    /// # Errors
    /// The line cannot be written to stdout.
    pub fn did(&self, step: Step, verb: &str, words: &str) -> Result<()> {
        self.done(step);
        self.line(verb, words)
    }

    /// The same for a step that the line of another step covers.
    pub fn done(&self, step: Step) {
        let mut state = self.state.borrow_mut();
        state.has_written = true;
        match state.steps.iter_mut().find(|known| known.is_about(&step)) {
            Some(known) => known.is_done = true,
            None => state.steps.push(Step {
                is_done: true,
                ..step
            }),
        }
    }

    /// Reports that objects stay, instead of what was planned for them.
    pub fn stay(&self, stays: impl IntoIterator<Item = Step>) {
        let mut state = self.state.borrow_mut();
        for step in stays {
            state
                .steps
                .retain(|known| known.object != step.object || known.is_done);
            state.steps.push(step);
        }
    }

    /// Reports a fact that is no step.
    ///
    /// # Errors
    /// The line cannot be written to stdout.
    pub fn note(&self, text: &str) -> Result<()> {
        self.state.borrow_mut().notes.push(text.to_owned());
        self.line("note:", text)
    }

    /// Reports what the command waits for, or that it no longer waits.
    pub fn wait_for(&self, what: Option<&str>) {
        self.state.borrow_mut().waits_for = what.map(str::to_owned);
    }

    fn line(&self, verb: &str, words: &str) -> Result<()> {
        if self.is_json() {
            return Ok(());
        }
        output::print(&format!("{} {words}\n", Style::stdout().good(verb)))
    }

    /// Prints the JSON document, if that is the form, and returns the error with which the command
    /// has ended.
    ///
    /// # Errors
    /// The error of the command, or the document cannot be written.
    pub fn close(self, end: Result<End>) -> Result<()> {
        if self.is_json() {
            output::print_json(&self.state.take().json(&end))?;
        }
        end.map(drop)
    }
}

impl State {
    fn json(&self, end: &Result<End>) -> Value {
        let verdict = match end {
            Ok(End::Nothing) => "Nothing",
            Ok(End::Unchanged) => "Unchanged",
            Ok(End::Done(word)) => word,
            Err(_) if self.waits_for.is_some() => "Waiting",
            Err(_) if !self.has_written => "Refused",
            Err(_) => "Failed",
        };
        json!({
            "verdict": verdict,
            "domains": self.domains,
            "objects": self.steps.iter().map(Step::json).collect::<Vec<_>>(),
            "waitsFor": self.waits_for,
            "notes": self.notes,
            "error": end.as_ref().err().map(|error| format!("{error:#}")),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use anyhow::anyhow;
    use weft_plan::kinds;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(kinds::CONFIG_MAP, "n", name)
    }

    fn account(done: bool) -> State {
        let account = Account::new(Format::Json);
        let planned = ["a", "b", "c"].map(|name| Step::new(Action::Delete, &key(name)));
        account.plan(["addons"], planned);
        if done {
            account
                .did(Step::new(Action::Delete, &key("a")), "removed", "a")
                .unwrap();
            account
                .did(Step::new(Action::Release, &key("x")), "released", "x")
                .unwrap();
            account.stay([Step::new(Action::Stay, &key("b")).because("it is yours")]);
            account.wait_for(Some("a finalizer"));
        }
        account.state.take()
    }

    #[test]
    fn a_document_has_done_and_remaining_steps_and_what_stays() {
        let json = account(true).json(&Err(anyhow!("late")));
        let steps: Vec<_> = json["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| {
                let text = |field: &str| step[field].as_str().unwrap_or_default().to_owned();
                (text("action"), text("name"), step["done"].as_bool())
            })
            .collect();
        let of = |action: &str, name: &str, done| (action.to_owned(), name.to_owned(), done);
        assert_eq!(
            steps,
            [
                of("delete", "a", Some(true)),
                of("delete", "c", Some(false)),
                of("release", "x", Some(true)),
                of("stay", "b", None)
            ]
        );
        assert_eq!(
            (&json["waitsFor"], &json["error"], &json["domains"]),
            (&json!("a finalizer"), &json!("late"), &json!(["addons"]))
        );
    }

    #[test]
    fn the_verdict_shows_how_far_the_command_came() {
        let verdict = |state: State, end: Result<End>| state.json(&end)["verdict"].clone();
        assert_eq!(verdict(account(false), Ok(End::Nothing)), "Nothing");
        assert_eq!(verdict(account(false), Ok(End::Unchanged)), "Unchanged");
        assert_eq!(verdict(account(true), Ok(End::Done("Removed"))), "Removed");
        assert_eq!(verdict(account(false), Err(anyhow!("no"))), "Refused");
        assert_eq!(verdict(account(true), Err(anyhow!("late"))), "Waiting");
        let mut failed = account(true);
        failed.waits_for = None;
        assert_eq!(verdict(failed, Err(anyhow!("no"))), "Failed");
    }
}
