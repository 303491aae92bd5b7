//! The role of a file, determined only by its path.

use std::path::Path;

/// How a file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A `.car` archive.
    Archive,
    /// An XML file whose document element determines the kind of artefact.
    Artefact,
    /// `artifact.xml` of a Maven module, which gives registry resources their paths.
    Manifest,
    /// A registry resource with its path, such as `gov:/xslt/a.xslt`.
    Resource(String),
    /// Deployed by Micro Integrator, but not by Penstock.
    Unserved(&'static Unserved),
}

/// A reason for rejecting a file, an artefact or a mediator, with the alternative.
#[derive(Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Suffix of a file, document element, or type in an archive.
    names: &'static [&'static str],
    pub(super) message: &'static str,
    pub(super) help: &'static str,
}

pub(super) const UNSERVED: &[Unserved] = &[
    Unserved {
        names: &[".zip", "synapse/lib", "import", "library"],
        message: "connectors are not supported",
        help: "call the service with the `call` mediator and an `http` endpoint",
    },
    Unserved {
        names: &[".dbs", "service/dataservice", "datasource/datasource", "data", "datasource"],
        message: "data services are not supported",
        help: "serve the data by a service of its own, and call it with an `http` endpoint",
    },
    Unserved {
        names: &[".jar", "lib/synapse/mediator", "lib/library/bundle", "lib/dataservice/validator"],
        message: "Java libraries are not supported",
        help: "replace the class mediator by the mediators of docs/synapse.md, or call a service",
    },
    Unserved {
        names: &[
            "messageStore",
            "messageProcessor",
            "synapse/message-store",
            "synapse/message-stores",
            "synapse/message-processor",
            "synapse/message-processors",
        ],
        message: "message stores and processors are not supported",
        help: "send the message to its endpoint with `call`, which reports failures to the client",
    },
    Unserved {
        names: &["task", "synapse/task"],
        message: "scheduled tasks are not supported",
        help: "start the sequence from cron: publish it as an API, and request it with curl",
    },
    Unserved {
        names: &["eventSource", "synapse/event-source"],
        message: "event sources are not supported",
        help: "send each event to its subscribers with `clone`",
    },
    Unserved {
        names: &["priorityExecutor", "synapse/priority-executor"],
        message: "priority executors are not supported",
        help: "remove it; the limits of [gateway] keep one API from starving another",
    },
];

/// The row of a document element or of an archive's type.
pub(super) fn unserved(name: &str) -> Option<&'static Unserved> {
    UNSERVED.iter().find(|row| row.names.contains(&name))
}

/// Folders of registry resources, by the part of the registry that they hold.
const REGISTRIES: [(&str, &str); 4] =
    [("governance", "gov:"), ("gov", "gov:"), ("config", "conf:"), ("conf", "conf:")];

/// Folders of `wso2mi/resources` that are not in the registry.
const NOT_RESOURCES: [&str; 4] = ["api-definitions", "conf", "connectors", "metadata"];

impl Role {
    /// The role of `file`; `None` if it is not read.
    #[must_use]
    pub fn of(file: &Path) -> Option<Self> {
        let parts: Vec<&str> = file.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
        let (name, folders) = parts.split_last()?;
        // Hidden files belong to Kubernetes or are temporary files of editors.
        if name.starts_with(['.', '#']) || name.ends_with('~') {
            return None;
        }
        if let Some(path) = registry_path(&parts) {
            return Some(Self::Resource(path));
        }
        if let Some(row) = UNSERVED.iter().find(|row| has_suffix(name, row.names)) {
            return Some(Self::Unserved(row));
        }
        let in_resources = folders.windows(2).any(|pair| pair == ["wso2mi", "resources"]);
        let is_registry_module = |folder: &&str| {
            let folder = folder.to_ascii_lowercase();
            folder.ends_with("registry-resources") || folder.ends_with("registryresources")
        };
        match *name {
            name if name.ends_with(".car") => Some(Self::Archive),
            "pom.xml" => None,
            "artifact.xml" if !in_resources => Some(Self::Manifest),
            // Files that the manifests of these folders name.
            _ if in_resources || folders.iter().any(is_registry_module) => None,
            name if name.ends_with(".xml") => Some(Self::Artefact),
            _ => None,
        }
    }
}

/// Whether a folder below a configured one is listed. Builds and tests are not deployed.
#[must_use]
pub fn enters(folder: &Path) -> bool {
    let mut parts = folder.iter().rev();
    let (name, parent) = (parts.next(), parts.next());
    let is_test = name.is_some_and(|name| name == "test") && parent.is_some_and(|up| up == "src");
    !is_test && name.is_none_or(|name| name != "target")
}

/// Whether `name` ends with one of `names`, such as `.zip`.
fn has_suffix(name: &str, names: &[&str]) -> bool {
    names.iter().any(|suffix| suffix.starts_with('.') && name.ends_with(suffix))
}

/// The path of a file in a folder that mirrors the registry: Micro Integrator's own `registry/governance/...`, and
/// `wso2mi/resources` of a project.
fn registry_path(parts: &[&str]) -> Option<String> {
    let mirrored = parts.iter().enumerate().find_map(|(at, part)| {
        let root = parts.get(at.checked_add(1)?)?;
        let (_, prefix) = REGISTRIES.iter().find(|(folder, _)| folder == root)?;
        let below = parts.get(at.checked_add(2)?..)?;
        (*part == "registry" && !below.is_empty()).then(|| format!("{prefix}/{}", below.join("/")))
    });
    if mirrored.is_some() {
        return mirrored;
    }
    let at = parts.windows(2).position(|pair| pair == ["wso2mi", "resources"])?;
    let below = parts.get(at.checked_add(2)?..)?;
    let first = below.first().filter(|_| below.len() > 1)?;
    let held = !NOT_RESOURCES.contains(first) && *first != "registry";
    held.then(|| format!("gov:/mi-resources/{}", below.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognised_by_its_path() {
        let resource = |path: &str| Some(Role::Resource(path.to_owned()));
        check("a/orders.car", Some(Role::Archive));
        check("synapse-configs/default/proxy-services/Orders.xml", Some(Role::Artefact));
        check("OrdersConfigs/src/main/synapse-config/api/Orders.xml", Some(Role::Artefact));
        check("p/src/main/wso2mi/artifacts/apis/Orders.xml", Some(Role::Artefact));
        check("p/src/main/wso2mi/resources/xslt/a.xslt", resource("gov:/mi-resources/xslt/a.xslt"));
        check("p/src/main/wso2mi/resources/registry/gov/a/b.xml", resource("gov:/a/b.xml"));
        check("p/src/main/wso2mi/resources/registry/conf/b.json", resource("conf:/b.json"));
        check("registry/governance/xslt/a.xslt", resource("gov:/xslt/a.xslt"));
        check("OrdersRegistryResources/artifact.xml", Some(Role::Manifest));
        for unread in [
            "p/src/main/wso2mi/resources/artifact.xml",
            "p/src/main/wso2mi/resources/conf/config.properties",
            "p/src/main/wso2mi/resources/metadata/a.yaml",
            "OrdersRegistryResources/a.xml",
            "pom.xml",
            "a/.Orders.xml.swp",
            "a/#Orders.xml#",
            "a/Orders.xml~",
            "a/README.md",
            "registry/governance",
        ] {
            check(unread, None);
        }
    }

    #[test]
    fn what_micro_integrator_alone_deploys_is_named() {
        for (file, phrase) in [
            ("a/email-connector-1.0.zip", "connectors"),
            ("p/src/main/wso2mi/resources/connectors/email.zip", "connectors"),
            ("a/Orders.dbs", "data services"),
            ("a/lib/mediator.jar", "Java libraries"),
        ] {
            let Some(Role::Unserved(row)) = Role::of(Path::new(file)) else { panic!("{file}") };
            assert!(row.message.contains(phrase), "{file}");
        }
    }

    #[test]
    fn builds_and_tests_of_a_project_are_not_deployed() {
        assert!(enters(Path::new("a/src/main")) && enters(Path::new("a/test")));
        assert!(!enters(Path::new("a/target")) && !enters(Path::new("a/src/test")));
    }

    #[track_caller]
    fn check(file: &str, expect: Option<Role>) {
        assert_eq!(Role::of(Path::new(file)), expect, "{file}");
    }
}
