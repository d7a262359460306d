//! The files as they will be, in a directory of their own until they are good.

use super::connect::{self, InterruptibleRuntime};
use super::draft;
use super::record::NewFile;
use super::source::{AgentConfig, FoundServer, FoundServers, FoundTransport};
use super::telling::InitTelling;
use crate::cli::files;
use crate::cli::listed_tools::ListedTools;
use crate::cli::templates::{self, KnownServer, Template};
use crate::config::{self, FILE_NAME, Loaded};
use crate::gate::catalogue::tool::Tool;
use crate::guards::pins::PIN_FILE_NAME as PINS;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use crate::policy::live::LivePolicy;
use crate::policy::pins::{Pins, written};
use anyhow::{Context as _, bail};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the directories begin in which files are made.
const DRAFT_PREFIX: &str = ".toolgate-init-";

/// What is in the making. When it is dropped, nothing is left of it.
pub(super) struct DraftFiles {
    directory: PathBuf,
    place: PathBuf,
    /// Whether the operator had that directory before.
    had_place: bool,
    /// The agent's file, as comments name it.
    from: String,
    /// How long the servers may take to answer.
    bound: Duration,
    /// Where toolgate is to keep its record, if not beside the configuration.
    data: Option<String>,
    /// Says to others that it is in use.
    _lock: File,
}

/// Files that `toolgate check` accepts, and what is to be said of them.
pub(super) struct GoodFiles {
    pub(super) files: Vec<NewFile>,
    pub(super) loaded: Loaded,
    pub(super) notes: Vec<String>,
}

impl DraftFiles {
    pub(super) fn new(
        place: &Path,
        agents: Option<&AgentConfig>,
        bound: Duration,
        data: Option<&Path>,
    ) -> anyhow::Result<Self> {
        // What is typed begins where that is, what a file says beside the file.
        let data = data.map(std::path::absolute).transpose()?;
        let data = data.map(|data| data.into_os_string().into_string());
        let data = data
            .transpose()
            .map_err(|_| anyhow::anyhow!("--data is not UTF-8; name another directory"))?;
        let name = agents
            .and_then(|agents| agents.path.file_name())
            .map(|name| name.to_string_lossy().into_owned());
        let directory = place.join(format!("{DRAFT_PREFIX}{}", unguessable()));
        let had_place = place.as_os_str().is_empty() || place.exists();
        if !had_place {
            files::private_directory(place)?;
        }
        let alone = files::alone(&directory)?;
        remove_leftovers(place);
        files::private_directory(&directory.join("policies/tests"))?;
        let lock = File::open(&directory).and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.with_context(|| format!("{} cannot be locked", directory.display()))?;
        drop(alone);
        // A draft that was left behind is nothing to commit.
        fs::write(directory.join(".gitignore"), "*\n")?;
        Ok(Self {
            directory,
            place: place.to_path_buf(),
            had_place,
            from: name.unwrap_or_else(|| "the command line".to_owned()),
            bound,
            data,
            _lock: lock,
        })
    }

    /// The configuration of these servers.
    fn configuration(&self, found: &FoundServers) -> String {
        draft::configuration(&found.servers, &self.from, self.bound, self.data.as_deref())
    }

    fn load(&self, found: &FoundServers, pinned: bool) -> Loaded {
        let variable = |name: &str| {
            found
                .variables
                .value(name)
                .or_else(|| std::env::var(name).ok())
        };
        let path = self.directory.join(FILE_NAME);
        if pinned {
            config::load_with(&path, &variable)
        } else {
            config::load_unpinned(&path, &variable)
        }
    }

    /// What the servers list that answer in time.
    pub(super) fn connect(
        &self,
        runtime: &mut InterruptibleRuntime,
        found: &FoundServers,
        telling: &mut InitTelling<'_>,
    ) -> anyhow::Result<ListedTools> {
        let text = self.configuration(found);
        let path = self.directory.join(FILE_NAME);
        files::replace(&path, text.as_bytes(), PRIVATE_FILE_MODE)?;
        let Loaded {
            config, reading, ..
        } = self.load(found, false);
        let config = config.with_context(|| {
            let said = self.said(&text, &reading.diagnostics);
            format!("nothing was written: {}", self.shown(&said))
        })?;
        let again = config::reader(path, &config);
        let policy = LivePolicy::start(reading, again).context("the policy cannot be used")?;
        let listed = connect::connect(runtime, &config, &policy, self.bound, telling)?;
        connect::judge(&listed, found, self.bound, telling)?;
        Ok(listed)
    }

    /// The files of these servers, by the templates that know them. A template that does not fit
    /// what its server lists gives way to drafts.
    pub(super) fn good(
        &self,
        found: &FoundServers,
        listed: &ListedTools,
    ) -> anyhow::Result<GoodFiles> {
        let mut drafts: Vec<ServerToWrite<'_>> = found
            .servers
            .iter()
            .map(|server| ServerToWrite::of(server, listed))
            .collect();
        let mut notes = Vec::new();
        loop {
            let files = self.files(found, listed, &drafts);
            let loaded = self.check(found, &files)?;
            let errors: Vec<_> = loaded
                .reading
                .diagnostics
                .iter()
                .filter(|found| found.severity == Severity::Error)
                .collect();
            if errors.is_empty() {
                notes.extend(drafts.iter().filter_map(ServerToWrite::note));
                return Ok(GoodFiles {
                    files,
                    loaded,
                    notes,
                });
            }
            let mut gave_way = false;
            for draft in drafts.iter_mut().filter(|draft| draft.template.is_some()) {
                let own = self.directory.join(policy_file(&draft.server.name));
                if errors.iter().any(|error| Path::new(&error.file) == own) {
                    notes.push(format!(
                        "`{}`: its tools are not as the template has them, so each contract is a draft",
                        draft.server.name
                    ));
                    (draft.template, gave_way) = (None, true);
                }
            }
            if !gave_way {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                bail!(
                    "nothing was written: the draft is not good, which is a defect of toolgate\n{}",
                    self.shown(&errors.join("\n"))
                );
            }
        }
    }

    /// Each file, and where it goes.
    fn files(
        &self,
        found: &FoundServers,
        listed: &ListedTools,
        drafts: &[ServerToWrite<'_>],
    ) -> Vec<NewFile> {
        let file = |name: &str, text: String| NewFile::own(self.place.join(name), text);
        let mut files = vec![file(FILE_NAME, self.configuration(found))];
        for draft in drafts {
            files.push(file(&policy_file(&draft.server.name), draft.policy()));
            let pack = draft.pack();
            files.extend(pack.map(|pack| file(&pack_file(&draft.server.name), pack)));
        }
        files.push(file(
            &draft::sides_file(&found.servers),
            draft::sides(&listed.offers),
        ));
        let pins: Pins = listed.pins().collect();
        let complete = listed.complete(&pins, &BTreeSet::new());
        files.push(file(PINS, written(&pins, &complete)));
        files
    }

    /// Judges the files as `toolgate check` does.
    fn check(&self, found: &FoundServers, files: &[NewFile]) -> anyhow::Result<Loaded> {
        for NewFile { path, text, .. } in files {
            let within = path.strip_prefix(&self.place).unwrap_or(path);
            files::replace(
                &self.directory.join(within),
                text.as_bytes(),
                PRIVATE_FILE_MODE,
            )?;
        }
        Ok(self.load(found, true))
    }

    /// What is wrong with the servers, in words of the agent's file: nobody has seen the draft `text`.
    fn said(&self, text: &str, diagnostics: &[Diagnostic]) -> String {
        let errors = diagnostics
            .iter()
            .filter(|one| one.severity == Severity::Error);
        let one = |error: &Diagnostic| {
            let Some(server) = draft::server_at(text, error.line) else {
                return error.to_string();
            };
            let hint = error.hint.as_deref().map(|hint| format!("; {hint}"));
            let (message, hint) = (&error.message, hint.unwrap_or_default());
            format!("`{server}` of {}: {message}{hint}", self.from)
        };
        errors.map(one).collect::<Vec<_>>().join("\n")
    }

    fn shown(&self, said: &str) -> String {
        said.replace(&format!("{}/", self.directory.display()), "")
    }
}

impl Drop for DraftFiles {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
        if !self.had_place {
            // Only if nothing was written to it.
            drop(fs::remove_dir(&self.place));
        }
    }
}

/// Removes what an `init` that was killed has left in `place`. The caller has the place to itself, and
/// what an `init` that runs is making is locked.
pub(super) fn remove_leftovers(place: &Path) {
    let here = if place.as_os_str().is_empty() {
        Path::new(".")
    } else {
        place
    };
    for entry in fs::read_dir(here).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let chance = name
            .to_str()
            .and_then(|name| name.strip_prefix(DRAFT_PREFIX));
        let is_draft = chance.is_some_and(|chance| {
            chance.len() == 32 && chance.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        // A link is no draft, and what it leads to is nobody's to remove.
        if !is_draft || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Ok(lock) = File::open(entry.path())
            && lock.try_lock().is_ok()
        {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Where the contracts of a server go.
pub(super) fn policy_file(server: &str) -> String {
    format!("policies/{server}.yaml")
}

/// Where the samples of a server go.
pub(super) fn pack_file(server: &str) -> String {
    format!("policies/tests/{server}.yaml")
}

/// What is written of one server.
struct ServerToWrite<'a> {
    server: &'a FoundServer,
    tools: Vec<&'a Tool>,
    words: Vec<String>,
    template: Option<Template>,
}

impl<'a> ServerToWrite<'a> {
    fn of(server: &'a FoundServer, listed: &'a ListedTools) -> Self {
        let own = |tool: &&Tool| tool.server.settings.name.as_str() == server.name;
        let tools = listed.tools.iter().map(|tool| &**tool).filter(own);
        let words = match &server.reached {
            FoundTransport::Child { command, args, .. } => {
                std::iter::once(command).chain(args).cloned().collect()
            }
            FoundTransport::Http { .. } => Vec::new(),
        };
        let mut draft = Self {
            server,
            tools: tools.collect(),
            words,
            template: None,
        };
        draft.template = draft.with_known(templates::recognise);
        draft
    }

    fn with_known<R>(&self, ask: impl FnOnce(&KnownServer<'_>) -> R) -> R {
        let tools: Vec<&str> = self
            .tools
            .iter()
            .map(|tool| &*tool.definition.name)
            .collect();
        let url = match &self.server.reached {
            FoundTransport::Http { url, .. } => Some(url.as_str()),
            FoundTransport::Child { .. } => None,
        };
        ask(&KnownServer {
            words: &self.words,
            url,
            tools: &tools,
        })
    }

    /// The text of its policy file.
    fn policy(&self) -> String {
        let (Some(template), name) = (&self.template, self.server.name.as_str()) else {
            return draft::contracts(&self.tools);
        };
        self.with_known(|known| {
            let head = template.rest(name, known);
            let contract = |tool: &Tool| template.contract(name, &tool.definition.name, known);
            draft::by_template(&head, &self.tools, &contract)
        })
    }

    fn pack(&self) -> Option<String> {
        let template = self.template.as_ref()?;
        self.with_known(|known| template.pack(&self.server.name, known))
    }

    fn note(&self) -> Option<String> {
        let (template, name) = (self.template.as_ref()?, &self.server.name);
        Some(format!(
            "`{name}` is known: its contracts and samples are those of the template {}",
            template.name()
        ))
    }
}
