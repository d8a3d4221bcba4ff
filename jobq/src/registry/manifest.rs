//! The manifest: all job types with their fields, options and versions, as JSON; and what a change of it would break.

use super::{Field, JobEntry, Registry};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// The environment variable that has [`Manifest::check`] write the file anew.
const WRITE: &str = "JOBQ_WRITE_MANIFEST";

/// All job types of a program, by their stored names: what rows hold, as far as the attributes tell.
///
/// It sees the parameters of job functions and serde's attributes on them. Types are told by what is written: a change
/// inside of a struct of your own is not seen here, but by [`JobQueue::check`](crate::queue::JobQueue::check).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// By stored name.
    pub jobs: BTreeMap<String, JobManifest>,
}

/// One job type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobManifest {
    /// The version of its payloads.
    pub version: u32,
    /// Names of rows written before a rename.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Module path and name of its function.
    pub function: String,
    /// The fields of its payload, in their order.
    pub fields: Vec<ManifestField>,
    /// What makes the payload's JSON another than an object of the fields.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shape: String,
    /// The other options of its attribute, as written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// One field of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestField {
    /// Its name in JSON.
    pub name: String,
    /// Its type, as written.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether a payload may lack it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Other names that are read for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Whether its own fields stand in its place.
    #[serde(default, skip_serializing_if = "is_false")]
    pub flatten: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Registry {
    /// The manifest of these jobs.
    pub fn manifest(&self) -> Manifest {
        let jobs = self.iter().map(|entry| (entry.job_type.to_owned(), JobManifest::of(entry)));
        Manifest { jobs: jobs.collect() }
    }
}

impl JobManifest {
    fn of(entry: &JobEntry) -> Self {
        const TOLD_ELSEWHERE: [&str; 4] = ["type", "aliases", "version", "crate"];
        let mut options: BTreeMap<String, String> = BTreeMap::new();
        for (word, value) in entry.written.iter().filter(|(word, _)| !TOLD_ELSEWHERE.contains(word)) {
            let text = options.entry((*word).to_owned()).or_default();
            *text = if text.is_empty() { (*value).to_owned() } else { format!("{text}; {value}") };
        }
        Self {
            version: entry.defaults.version,
            aliases: owned(entry.aliases),
            function: format!("{}::{}", entry.module, entry.function),
            fields: entry.fields.iter().map(ManifestField::of).collect(),
            shape: entry.shape.to_owned(),
            options,
        }
    }

    fn field(&self, name: &str) -> Option<&ManifestField> {
        let named = self.fields.iter().find(|field| field.name == name);
        named.or_else(|| self.fields.iter().find(|field| field.aliases.iter().any(|alias| alias == name)))
    }
}

impl ManifestField {
    fn of(field: &Field) -> Self {
        let Field { name, aliases, ty, optional, flatten, .. } = *field;
        Self { name: name.into(), ty: ty.into(), optional, aliases: owned(aliases), flatten }
    }

    /// Whether what was stored as `old` is read as this.
    fn reads(&self, old: &Self) -> bool {
        let inside = |ty: &str| {
            let (path, inside) = ty.split_once('<')?;
            let is_option = path == "Option" || path.ends_with("::Option");
            is_option.then(|| inside.strip_suffix('>').map(str::to_owned))?
        };
        self.flatten == old.flatten && (self.ty == old.ty || inside(&self.ty).as_ref() == Some(&old.ty))
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl fmt::Display for Manifest {
    /// Indented JSON, the same for the same jobs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?)
    }
}

/// One difference between two manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The stored name of the job.
    pub job_type: String,
    /// What is different.
    pub what: String,
    /// Why rows that are stored could not be run any more, and what to write; `None`: they can.
    pub breaks: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job_type, what, breaks } = self;
        write!(f, "`{job_type}`: {what}")?;
        breaks.as_ref().map_or(Ok(()), |why| write!(f, "\n    {why}"))
    }
}

impl Manifest {
    /// What has changed since `old`, the jobs in the order of their names.
    pub fn changes_since(&self, old: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (job_type, before) in &old.jobs {
            let mut say = |(what, breaks)| changes.push(Change { job_type: job_type.clone(), what, breaks });
            for alias in before.aliases.iter().filter(|alias| self.named(alias).is_none()) {
                let fix = format!(
                    "rows that carry that name would wait for ever: keep it, `aliases = [{alias:?}]`"
                );
                say((format!("its alias `{alias}` is gone"), Some(fix)));
            }
            match self.named(job_type) {
                Some(after) => after.changes_since(before).into_iter().for_each(say),
                None => {
                    let fix = format!(
                        "its rows would wait for ever: keep the name with `type = {job_type:?}`, or give it to the job \
                         that takes them over, `aliases = [{job_type:?}]`"
                    );
                    say(("the job is gone".into(), Some(fix)));
                }
            }
        }
        for job_type in self.jobs.keys().filter(|name| !old.jobs.contains_key(*name)) {
            let (job_type, what) = (job_type.clone(), "the job is new".into());
            changes.push(Change { job_type, what, breaks: None });
        }
        changes
    }

    /// The job that runs rows of this name.
    fn named(&self, name: &str) -> Option<&JobManifest> {
        let by_alias = |job: &&JobManifest| job.aliases.iter().any(|alias| alias == name);
        self.jobs.get(name).or_else(|| self.jobs.values().find(by_alias))
    }
}

/// What has changed, and how to mend it where it breaks something.
type Told = (String, Option<String>);

impl JobManifest {
    fn changes_since(&self, old: &Self) -> Vec<Told> {
        let (now, before) = (self.version, old.version);
        if now < before {
            let fix = format!(
                "rows of version {before} may be stored: write `version = {before}`, or a higher one"
            );
            return vec![(format!("its version went from {before} back to {now}"), Some(fix))];
        }
        let mut told = self.shape_changes(old);
        told.extend(old.fields.iter().filter_map(|field| self.field_changes(field)));
        told.extend(self.new_fields(old));
        for fix in told.iter_mut().filter_map(|(_, fix)| fix.as_mut()) {
            *fix += &format!(
                "; or write `version = {}` and an `upgrade` that makes the new from the old",
                now + 1
            );
        }
        if now > before {
            // What a new version changes is its `upgrade`'s to mend.
            told.iter_mut().for_each(|(_, fix)| *fix = None);
            told.insert(0, (format!("its version went from {before} to {now}"), None));
        }
        if self.options != old.options {
            told.push(("its options have changed".into(), None));
        }
        told
    }

    fn shape_changes(&self, old: &Self) -> Vec<Told> {
        if self.shape == old.shape {
            return Vec::new();
        }
        let shown =
            |shape: &str| if shape.is_empty() { "an object".to_owned() } else { format!("`{shape}`") };
        let what = format!("its JSON was {} and is {}", shown(&old.shape), shown(&self.shape));
        vec![(what, Some("what is stored does not read so: take the serde attribute back".into()))]
    }

    /// What became of one field, where it is not as it was.
    fn field_changes(&self, old: &ManifestField) -> Option<Told> {
        let ManifestField { name, ty, .. } = old;
        let Some(new) = self.field(name) else {
            let fix = format!(
                "what is stored in it would be lost: keep it, or where it was renamed write `#[serde(alias = {name:?})]` \
                 on the new one"
            );
            return Some((format!("its field `{name}: {ty}` is gone"), Some(fix)));
        };
        if !new.reads(old) {
            let what = format!("its field `{name}: {ty}` is a `{}`", new.ty);
            let fix = format!("stored payloads have a `{ty}` there: give the new one another name");
            return Some((what, Some(fix)));
        }
        if old.optional && !new.optional {
            let fix = format!("stored payloads may lack it: write `#[serde(default)] {name}`");
            return Some((format!("its field `{name}: {ty}` may no longer be missing"), Some(fix)));
        }
        (new != old).then(|| (format!("its field `{name}` has changed, and reads what is stored"), None))
    }

    fn new_fields(&self, old: &Self) -> Vec<Told> {
        let is_new = |field: &&ManifestField| {
            !old.fields.iter().any(|old| old.name == field.name || field.aliases.contains(&old.name))
        };
        let told = |ManifestField { name, ty, optional, .. }: &ManifestField| {
            let fix = || {
                format!(
                    "stored payloads lack it: write `#[serde(default)] {name}: {ty}`, or `{name}: Option<{ty}>`"
                )
            };
            (format!("its field `{name}: {ty}` is new"), (!optional).then(fix))
        };
        self.fields.iter().filter(is_new).map(told).collect()
    }
}

// ---- the golden file -------------------------------------------------------------------------------------------

impl Manifest {
    /// Holds this manifest against the file that was written before, and gives the changes that break nothing.
    ///
    /// With `JOBQ_WRITE_MANIFEST=1` in the environment it writes the file instead. A relative path begins at the
    /// directory of the package, where `cargo test` runs.
    ///
    /// # Errors
    /// [`ManifestError::Breaks`]: rows that are stored could not be run any more; the text says what to write.
    /// [`ManifestError::NotThere`] and [`ManifestError::Unreadable`] say how to write the file.
    pub fn check(&self, path: impl AsRef<Path>) -> Result<Vec<Change>, ManifestError> {
        let path = path.as_ref();
        let failed = |source| ManifestError::Io { path: path.into(), source };
        if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty() && value != "0") {
            fs::write(path, format!("{self}\n")).map_err(failed)?;
            return Ok(Vec::new());
        }
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ManifestError::NotThere { path: path.into() });
            }
            read => read.map_err(failed)?,
        };
        let old: Self = serde_json::from_str(&text)
            .map_err(|source| ManifestError::Unreadable { path: path.into(), source })?;
        let (breaks, fine): (Vec<_>, Vec<_>) =
            self.changes_since(&old).into_iter().partition(|change| change.breaks.is_some());
        match breaks.is_empty() {
            true => Ok(fine),
            false => Err(ManifestError::Breaks { path: path.into(), changes: breaks }),
        }
    }
}

/// What [`Manifest::check`] has found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// With these changes rows that are stored could not be run any more.
    #[error(
        "jobs that are stored could not be run any more by this build, as {} shows:\n{}\nWhere none of them can be \
         stored, write the file anew: {WRITE}=1 cargo test",
        path.display(), listed(changes)
    )]
    Breaks {
        /// The file.
        path: PathBuf,
        /// All of them.
        changes: Vec<Change>,
    },
    /// There is no such file yet.
    #[error("there is no {}; write it with {WRITE}=1 cargo test, and commit it", path.display())]
    NotThere {
        /// The file.
        path: PathBuf,
    },
    /// The file is no manifest.
    #[error("{} is no manifest: {source}; write it anew with {WRITE}=1 cargo test", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn listed(changes: &[Change]) -> String {
    changes.iter().map(|change| format!("  {change}")).collect::<Vec<_>>().join("\n")
}
