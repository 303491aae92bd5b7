//! The parts of an OpenAPI description that are kept. Schemas, examples and prose make up most of a large description;
//! they are only checked to be well-formed.

/// The kind of a value, which decides the parts that are kept below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Everything,
    Nothing,
    Document,
    Components,
    Paths,
    PathItem,
    Operation,
}

/// The keys that describe an operation, in both versions.
pub(crate) const METHODS: [&str; 8] =
    ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

impl Keep {
    /// The kind of the member `key`.
    pub(crate) fn below(self, key: &str) -> Self {
        match self {
            Self::Everything => Self::Everything,
            Self::Nothing => Self::Nothing,
            Self::Document => match key {
                "paths" => Self::Paths,
                "components" => Self::Components,
                "openapi"
                | "swagger"
                | "info"
                | "servers"
                | "security"
                | "securityDefinitions"
                | "host"
                | "basePath"
                | "schemes" => Self::Everything,
                // Members of a project of API Manager.
                "type" | "data" => Self::Everything,
                _ => Self::extension(key),
            },
            Self::Components => match key {
                "securitySchemes" => Self::Everything,
                "pathItems" => Self::Paths,
                _ => Self::Nothing,
            },
            Self::Paths => Self::PathItem,
            Self::PathItem => match key {
                "$ref" | "servers" | "security" => Self::Everything,
                _ if METHODS.contains(&key) => Self::Operation,
                _ => Self::extension(key),
            },
            Self::Operation => match key {
                "security" | "servers" => Self::Everything,
                _ => Self::extension(key),
            },
        }
    }

    fn extension(key: &str) -> Self {
        if crate::openapi::is_extension(key) { Self::Everything } else { Self::Nothing }
    }
}
