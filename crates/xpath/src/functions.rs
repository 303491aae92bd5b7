//! The table of the core function library: XPath 1.0 section 4.

use crate::plan::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Core {
    Last,
    Position,
    Count,
    Id,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Lang,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
}

/// Any number of arguments.
const ANY: usize = usize::MAX;

struct Row {
    name: &'static str,
    core: Core,
    fewest: usize,
    most: usize,
    returns: Type,
}

const fn row(name: &'static str, core: Core, fewest: usize, most: usize, returns: Type) -> Row {
    Row { name, core, fewest, most, returns }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // section 4.1
    row("last",             Core::Last,            0, 0,   Type::Number),
    row("position",         Core::Position,        0, 0,   Type::Number),
    row("count",            Core::Count,           1, 1,   Type::Number),
    row("id",               Core::Id,              1, 1,   Type::NodeSet),
    row("local-name",       Core::LocalName,       0, 1,   Type::String),
    row("namespace-uri",    Core::NamespaceUri,    0, 1,   Type::String),
    row("name",             Core::Name,            0, 1,   Type::String),
    // section 4.2
    row("string",           Core::String,          0, 1,   Type::String),
    row("concat",           Core::Concat,          2, ANY, Type::String),
    row("starts-with",      Core::StartsWith,      2, 2,   Type::Boolean),
    row("contains",         Core::Contains,        2, 2,   Type::Boolean),
    row("substring-before", Core::SubstringBefore, 2, 2,   Type::String),
    row("substring-after",  Core::SubstringAfter,  2, 2,   Type::String),
    row("substring",        Core::Substring,       2, 3,   Type::String),
    row("string-length",    Core::StringLength,    0, 1,   Type::Number),
    row("normalize-space",  Core::NormalizeSpace,  0, 1,   Type::String),
    row("translate",        Core::Translate,       3, 3,   Type::String),
    // section 4.3
    row("boolean",          Core::Boolean,         1, 1,   Type::Boolean),
    row("not",              Core::Not,             1, 1,   Type::Boolean),
    row("true",             Core::True,            0, 0,   Type::Boolean),
    row("false",            Core::False,           0, 0,   Type::Boolean),
    row("lang",             Core::Lang,            1, 1,   Type::Boolean),
    // section 4.4
    row("number",           Core::Number,          0, 1,   Type::Number),
    row("sum",              Core::Sum,             1, 1,   Type::Number),
    row("floor",            Core::Floor,           1, 1,   Type::Number),
    row("ceiling",          Core::Ceiling,         1, 1,   Type::Number),
    row("round",            Core::Round,           1, 1,   Type::Number),
];

impl Core {
    /// The function of that name, or an error message for the number of arguments.
    pub(crate) fn named(name: &str, arguments: usize) -> Option<Result<Self, String>> {
        let row = TABLE.iter().find(|row| row.name == name)?;
        if (row.fewest..=row.most).contains(&arguments) {
            return Some(Ok(row.core));
        }
        let expected = match (row.fewest, row.most) {
            (fewest, ANY) => format!("at least {fewest} arguments"),
            (1, 1) => "1 argument".to_owned(),
            (fewest, most) if fewest == most => format!("{fewest} arguments"),
            (fewest, most) => format!("{fewest} to {most} arguments"),
        };
        Some(Err(format!("`{name}()` takes {expected}, not {arguments}")))
    }

    pub(crate) fn return_type(self) -> Type {
        TABLE.get(self as usize).map_or(Type::Unknown, |row| row.returns)
    }
}

/// The names of the functions of the core library, in the order of the recommendation.
pub fn core_function_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.name)
}

impl Core {
    /// Whether the function reads the context node if it has this many arguments.
    pub(crate) fn reads_context(self, arguments: usize) -> bool {
        match self {
            Self::Id | Self::Lang => true,
            Self::LocalName
            | Self::NamespaceUri
            | Self::Name
            | Self::String
            | Self::StringLength
            | Self::NormalizeSpace
            | Self::Number => arguments == 0,
            Self::Last
            | Self::Position
            | Self::Count
            | Self::Concat
            | Self::StartsWith
            | Self::Contains
            | Self::SubstringBefore
            | Self::SubstringAfter
            | Self::Substring
            | Self::Translate
            | Self::Boolean
            | Self::Not
            | Self::True
            | Self::False
            | Self::Sum
            | Self::Floor
            | Self::Ceiling
            | Self::Round => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_all_27_functions_in_the_order_of_the_enum() {
        assert_eq!(TABLE.len(), 27);
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.core as usize, index, "{}", row.name);
        }
    }
}
