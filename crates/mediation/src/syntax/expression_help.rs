//! Substitutes for rejected expressions.

use base::names;
use xpath::synapse::SynapseXPath;

/// Help for a rejected `source`, whose error is `message`. `None`: the message suffices.
pub(crate) fn help(source: &str, message: &str) -> Option<String> {
    let text = source.trim();
    // A frequent function of Micro Integrator, which has a vault of its own.
    if text.contains("vault-lookup(") {
        let variable = "and put the secret into the environment variable `NAME`";
        return Some(format!("write `${{configs.NAME}}`, {variable}"));
    }
    if let Some(path) = text.strip_prefix("json-eval(") {
        return Some(of_json_path(path));
    }
    if text.starts_with("${") {
        return None;
    }
    if let Some((_, rest)) = text.split_once("json-eval(") {
        let path = rest.split_once(')').map_or(rest, |(path, _)| path);
        return Some(format!(
            "XPath cannot contain JSONPath: set a property to `json-eval({path})` first, and write `$ctx:NAME` here"
        ));
    }
    if text.contains("${") {
        return Some(
            "a Synapse expression must be the whole value: write `${...}` around it".into(),
        );
    }
    if text.starts_with("$.") || text.starts_with("$[") {
        return Some(format!("write a JSONPath as `json-eval({text})`"));
    }
    if let Some(name) = quoted(message, "unknown function `") {
        return Some(of_function(name));
    }
    if let Some(name) = quoted(message, "unknown variable `$") {
        return Some(format!(
            "write `$ctx:{name}` for a property, or `$body`, `$header` or `$env` for a part of the message"
        ));
    }
    if let Some(prefix) = quoted(message, "undeclared namespace prefix `") {
        return Some(format!("declare xmlns:{prefix}=\"...\" on this element or one around it"));
    }
    let operators = [("==", "="), ("&&", "and"), ("||", "or")];
    let written = operators.iter().find(|(written, _)| text.contains(written));
    written.map(|(written, meant)| format!("write `{meant}` instead of `{written}` in XPath"))
}

/// What `message` has between `before` and the next backquote.
fn quoted<'m>(message: &'m str, before: &str) -> Option<&'m str> {
    Some(message.split_once(before)?.1.split_once('`')?.0)
}

fn of_json_path(path: &str) -> String {
    let help = if path.ends_with(')') {
        "paths are like `$.a.b`, `$.a[0]`, `$['a b'].c` and `$.a[?(@.b == 1)]`"
    } else if path.contains(')') {
        "`json-eval()` must be the whole expression; to compute with values of JSON, write `${payload.a + 1}`"
    } else {
        "close the parenthesis: `json-eval($.a)`"
    };
    help.to_owned()
}

fn of_function(name: &str) -> String {
    let local = name.rsplit([':', '}']).next().unwrap_or(name);
    let known = || xpath::core_function_names().chain(SynapseXPath::function_names());
    let plain = |known: &str| known.strip_prefix("fn:").unwrap_or(known) == local;
    match known().find(|known| plain(known)).or_else(|| names::nearest(local, known())) {
        Some(known) if known == name => "give it another number of arguments".to_owned(),
        Some(known) => format!("did you mean `{known}`?"),
        None => {
            "use functions of XPath 1.0, a Synapse expression (`${...}`), or `script`".to_owned()
        }
    }
}
