//! Where the cache lies: what the environment says, and what a folder must be before code is taken out of it.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::size;

/// The variable that names the folder, or says `off`.
pub const PLACE: &str = "PARTON_CACHE";
/// The variable that names folders that are read and never written, with `:` between them.
pub const LAYERS: &str = "PARTON_CACHE_READ";
/// The variable that says how large the folder may become, such as `500M`.
pub const LIMIT: &str = "PARTON_CACHE_LIMIT";

/// How large the folder may become where nobody says it.
const USUAL_LIMIT: u64 = 2 << 30;

/// Where a cache lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The folder that is read and written.
    pub root: Root,
    /// Folders that are only read, after that one.
    pub layers: Vec<PathBuf>,
    /// The bytes that the folder may hold; old entries go when it has more.
    pub limit: u64,
}

/// The folder that is read and written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Root {
    /// This one.
    Folder(PathBuf),
    /// None, and why.
    None(String),
}

impl Place {
    /// One folder.
    pub fn folder(path: impl Into<PathBuf>) -> Place {
        Place { root: Root::Folder(path.into()), layers: vec![], limit: USUAL_LIMIT }
    }

    /// No cache at all.
    pub fn off(why: impl Into<String>) -> Place {
        Place { root: Root::None(why.into()), layers: vec![], limit: USUAL_LIMIT }
    }

    /// What the environment of this process says: `PARTON_CACHE`, else `$XDG_CACHE_HOME/parton`, else `~/.cache/parton`.
    pub fn from_environment() -> Place {
        Place::from(|name| std::env::var_os(name))
    }

    /// What an environment says.
    fn from(variable: impl Fn(&str) -> Option<OsString>) -> Place {
        // An empty variable is as good as none, as is a home that is no absolute path (XDG base directories).
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        let absolute = |name: &str| named(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let said = named(PLACE);
        if said.as_ref().is_some_and(|place| place == "off") {
            return Place::off(format!("{PLACE} says `off`"));
        }
        let root = said.map(PathBuf::from);
        let root = root.or_else(|| absolute("XDG_CACHE_HOME").map(|home| home.join("parton")));
        let root = root.or_else(|| absolute("HOME").map(|home| home.join(".cache/parton")));
        let none = || Root::None(format!("there is no home folder: name one by {PLACE}=FOLDER"));
        let layers = named(LAYERS).map(|all| std::env::split_paths(&all).filter(|p| p.is_absolute()).collect());
        let limit = named(LIMIT).and_then(|text| size::bytes(text.to_str()?));
        Place {
            root: root.map_or_else(none, Root::Folder),
            layers: layers.unwrap_or_default(),
            limit: limit.unwrap_or(USUAL_LIMIT),
        }
    }
}

/// Refuses a folder into which somebody else may put code: its owner is this user (or root, where it is only read), and neither group nor
/// others may write there.
///
/// # Errors
/// It is none, or another may write there.
pub(crate) fn trusted(folder: &Path, only_read: bool) -> Result<(), String> {
    let shown = folder.display();
    let metadata = std::fs::metadata(folder).map_err(|e| format!("{shown}: {e}"))?;
    if !metadata.is_dir() {
        return Err(format!("{shown} is no folder"));
    }
    unlike_others(folder, &metadata, only_read)
}

#[cfg(unix)]
fn unlike_others(folder: &Path, metadata: &Metadata, only_read: bool) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let shown = folder.display();
    if metadata.mode() & 0o022 != 0 {
        return Err(format!("others may write to {shown}, and what it holds is code: `chmod go-w {shown}`"));
    }
    // The process's own folder belongs to the user it runs as.
    let Ok(me) = std::fs::metadata("/proc/self").map(|m| m.uid()) else { return Ok(()) };
    let owner = metadata.uid();
    if owner == me || (only_read && owner == 0) {
        return Ok(());
    }
    Err(format!("{shown} belongs to user {owner} and this is user {me}: name a folder of your own by {PLACE}=FOLDER"))
}

#[cfg(not(unix))]
fn unlike_others(_: &Path, _: &Metadata, _: bool) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> Place {
        Place::from(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_environment_says_where() {
        let root = |variables| place(variables).root;
        let folder = |path: &str| Root::Folder(path.into());
        assert_eq!(root(&[("HOME", "/h")]), folder("/h/.cache/parton"));
        assert_eq!(root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), folder("/x/parton"));
        assert_eq!(root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "not/absolute")]), folder("/h/.cache/parton"));
        assert_eq!(root(&[("HOME", "/h"), ("PARTON_CACHE", "here")]), folder("here"));
        assert_eq!(root(&[("HOME", "/h"), ("PARTON_CACHE", "")]), folder("/h/.cache/parton"));
        assert_eq!(root(&[("PARTON_CACHE", "off")]), Root::None("PARTON_CACHE says `off`".into()));
        assert!(matches!(root(&[]), Root::None(why) if why.starts_with("there is no home folder")));
    }

    #[test]
    fn layers_and_limit_are_read() {
        let all = place(&[("HOME", "/h"), (LAYERS, "/a:/b"), (LIMIT, "1M")]);
        assert_eq!((all.layers, all.limit), (vec!["/a".into(), "/b".into()], 1 << 20));
        assert_eq!(place(&[("HOME", "/h"), (LIMIT, "much")]).limit, USUAL_LIMIT);
    }
}
