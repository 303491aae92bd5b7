//! Compiles stylesheet modules to a program: first the declarations of all modules, then their templates.

mod declare;
mod instruction;
mod literal;
mod markup;
mod names;
mod number;
mod output;
mod tables;
mod values;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use xml::Node;
use xpath::{ExpandedName, Pool};

use crate::error::{Error, ErrorKind, LoadError, Module, Place};
use crate::load::{Loader, Resolver, TopLevel, attribute, is_xsl};
use crate::program::{
    Block, Global, Key, Op, OutputSpec, Program, Rule, Spaces, StaticScope, Symbols, Template,
    next_serial,
};
use crate::rules::Modes;

type Compiled<T = ()> = Result<T, LoadError>;

pub(crate) struct Compiler<'t> {
    ops: Vec<Op>,
    places: Vec<Place>,
    /// The place of the element that is being compiled.
    place: Place,
    /// The number of the module that is being compiled.
    module: usize,
    templates: Vec<Template>,
    rules: Vec<Rule>,
    modes: HashMap<ExpandedName, u32>,
    params: HashMap<ExpandedName, u32>,
    globals: Vec<Global>,
    /// Number and precedence.
    global_names: HashMap<ExpandedName, (u32, u32)>,
    named: HashMap<ExpandedName, (usize, u32)>,
    sets: Vec<AttributeSet<'t>>,
    set_names: HashMap<ExpandedName, usize>,
    keys: Vec<Key>,
    formats: HashMap<ExpandedName, (Symbols, u32)>,
    spaces: Spaces,
    output: OutputSpec,
    output_declarations: output::Declarations,
    aliases: HashMap<String, (String, String)>,
    locals: Locals,
    slots: u32,
    depth: usize,
    top_level: Vec<TopLevel<'t>>,
    roots: Vec<(Node<'t>, usize)>,
    /// Names that shortcuts select.
    selected: RefCell<Interner<ExpandedName>>,
    scopes: RefCell<Interner<StaticScope>>,
    unknown_functions: RefCell<Interner<ExpandedName>>,
    /// Global variables that have been referenced since this was last cleared.
    referenced: RefCell<Vec<u32>>,
    /// Bytes of the namespaces that have been kept.
    namespace_bytes: Cell<usize>,
}

/// The declarations of one name, in ascending precedence.
#[derive(Debug, Default)]
struct AttributeSet<'t> {
    declarations: Vec<TopLevel<'t>>,
    block: Block,
    /// The attribute sets that this one uses.
    uses: Vec<u32>,
}

/// Local variables in scope.
#[derive(Debug, Default)]
struct Locals {
    slots: HashMap<ExpandedName, u32>,
    names: Vec<ExpandedName>,
}

impl Locals {
    /// Adds a variable. Returns false if the name is already in scope.
    fn add(&mut self, name: ExpandedName, slot: u32) -> bool {
        if self.slots.contains_key(&name) {
            return false;
        }
        self.slots.insert(name.clone(), slot);
        self.names.push(name);
        true
    }

    fn truncate(&mut self, len: usize) {
        for name in self.names.drain(len.min(self.names.len())..) {
            self.slots.remove(&name);
        }
    }
}

/// Numbers values; equal values have the same number.
#[derive(Debug)]
struct Interner<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

pub(crate) fn compile(bytes: &[u8], resolver: &dyn Resolver) -> Result<Program, Error> {
    let pool = Pool::default();
    let mut loader = Loader::new(&pool, resolver);
    let loaded = loader.main(bytes);
    let modules = std::mem::take(&mut loader.modules);
    let program = loaded.and_then(|()| Compiler::new(loader).program());
    let mut program = program.map_err(|error| {
        error.located(modules.iter().map(|module| (module.document, module.uri.as_str())))
    })?;
    let uris: Vec<String> = modules.into_iter().map(|module| module.uri).collect();
    let modules = pool.into_documents().zip(uris);
    program.modules = modules.map(|(document, uri)| Module { document, uri }).collect();
    Ok(program)
}

impl<'t> Compiler<'t> {
    fn new(loader: Loader<'t>) -> Self {
        Self {
            ops: vec![Op::Halt],
            places: vec![Place::default()],
            place: Place::default(),
            module: 0,
            templates: Vec::new(),
            rules: Vec::new(),
            modes: HashMap::from([(ExpandedName::default(), 0)]),
            params: HashMap::new(),
            globals: Vec::new(),
            global_names: HashMap::new(),
            named: HashMap::new(),
            sets: Vec::new(),
            set_names: HashMap::new(),
            keys: Vec::new(),
            formats: HashMap::new(),
            spaces: Spaces::default(),
            output: OutputSpec::default(),
            output_declarations: output::Declarations::default(),
            aliases: HashMap::new(),
            locals: Locals::default(),
            slots: 0,
            depth: 0,
            top_level: loader.top_level,
            roots: loader.roots,
            selected: RefCell::default(),
            scopes: RefCell::default(),
            unknown_functions: RefCell::default(),
            referenced: RefCell::default(),
            namespace_bytes: Cell::default(),
        }
    }

    fn program(mut self) -> Compiled<Program> {
        self.declare_all()?;
        self.compile_all()?;
        Ok(self.finish())
    }

    fn compile_all(&mut self) -> Compiled {
        let top_level = std::mem::take(&mut self.top_level);
        let mut templates = 0usize;
        let mut globals: HashMap<u32, &TopLevel<'t>> = HashMap::new();
        for top in &top_level {
            self.enter(top.node, top.module);
            let node = top.node;
            if !is_top_level(node) {
                self.simplified(templates, node, top)?;
                templates = templates.saturating_add(1);
            } else if is_xsl(node, "template") {
                self.template(templates, node, top)?;
                templates = templates.saturating_add(1);
            } else if is_xsl(node, "variable") || is_xsl(node, "param") {
                let name = self.expanded(node, "name")?;
                let winner = self.global_names.get(&name).copied();
                if let Some((index, precedence)) = winner
                    && precedence == top.precedence
                {
                    globals.insert(index, top);
                }
            } else if is_xsl(node, "key") {
                self.key(node)?;
            }
        }
        for index in 0..self.globals.len() {
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            if let Some(top) = globals.get(&number) {
                self.enter(top.node, top.module);
                self.global(index, top.node)?;
            }
        }
        self.reject_circular_globals(&globals)?;
        self.attribute_sets()
    }

    fn enter(&mut self, node: Node<'t>, module: usize) {
        self.module = module;
        self.place = Place::of(node);
        self.locals.truncate(0);
        self.slots = 0;
    }

    /// A literal result element as stylesheet: section 2.3.
    fn simplified(&mut self, index: usize, node: Node<'t>, top: &TopLevel<'t>) -> Compiled {
        let start = self.ops.len();
        self.literal(node)?;
        self.emit(Op::Return);
        self.finish_template(index, start, top);
        self.rule(node, "/", (None, 0), index, top)
    }

    fn finish_template(&mut self, index: usize, start: usize, top: &TopLevel<'t>) {
        let block = Block { start, slots: self.slots as usize };
        if let Some(template) = self.templates.get_mut(index) {
            *template = Template { block, imports: (top.imports_from, top.precedence) };
        }
    }

    fn template(&mut self, index: usize, node: Node<'t>, top: &TopLevel<'t>) -> Compiled {
        self.check_attributes(node)?;
        let start = self.ops.len();
        self.head_params(node)?;
        self.sequence(node, &["param"])?;
        self.emit(Op::Return);
        self.finish_template(index, start, top);
        let mode = match self.optional_name(node, "mode")? {
            Some(mode) => self.mode(mode),
            None => 0,
        };
        let priority = match attribute(node, "priority") {
            Some(text) => {
                let number = xpath::string_to_number(text);
                if number.is_nan() {
                    return Err(self.invalid(node, "`priority` must be a number"));
                }
                Some(number)
            }
            None => None,
        };
        match attribute(node, "match") {
            Some(pattern) => self.rule(node, pattern, (priority, mode), index, top),
            None if attribute(node, "name").is_none() => {
                Err(self.invalid(node, "`xsl:template` requires `match` or `name`"))
            }
            None if attribute(node, "mode").is_some() => {
                Err(self.invalid(node, "`mode` requires `match`"))
            }
            None => Ok(()),
        }
    }

    fn mode(&mut self, name: ExpandedName) -> u32 {
        let next = u32::try_from(self.modes.len()).unwrap_or(u32::MAX);
        *self.modes.entry(name).or_insert(next)
    }

    /// Adds a rule for each alternative of a pattern.
    fn rule(
        &mut self,
        node: Node<'t>,
        pattern: &str,
        (priority, mode): (Option<f64>, u32),
        template: usize,
        top: &TopLevel<'t>,
    ) -> Compiled {
        self.locals.truncate(0);
        let pattern = self.pattern(node, "match", pattern)?;
        for pattern in pattern.into_alternatives() {
            use xpath::Matched;
            let always = match pattern.matched() {
                Matched::Root => true,
                Matched::Element(_) | Matched::Attribute(_) => pattern.is_plain_name(),
                Matched::AnyElement
                | Matched::AnyAttribute
                | Matched::Text
                | Matched::Comment
                | Matched::AnyChild => pattern.priority() == -0.5,
                Matched::Instruction(target) => target.is_none() && pattern.priority() == -0.5,
                Matched::Anything => false,
            };
            self.rules.push(Rule {
                priority: priority.unwrap_or(pattern.priority()),
                always,
                pattern,
                template,
                mode,
                precedence: top.precedence,
            });
        }
        Ok(())
    }

    fn key(&mut self, node: Node<'t>) -> Compiled {
        let name = self.expanded(node, "name")?;
        let (pattern, value) = self.key_parts(node)?;
        self.keys.push(Key { name, pattern, value });
        Ok(())
    }

    fn global(&mut self, index: usize, node: Node<'t>) -> Compiled {
        let start = self.ops.len();
        self.slots = 1;
        self.referenced.borrow_mut().clear();
        self.bind(node, 0)?;
        self.emit(Op::Return);
        let mut needs = self.referenced.take();
        needs.sort_unstable();
        needs.dedup();
        let block = Block { start, slots: self.slots as usize };
        if let Some(global) = self.globals.get_mut(index) {
            global.block = block;
            global.needs = needs;
        }
        Ok(())
    }

    /// Rejects circular definitions, which are errors even if they are not used (section 11.4).
    fn reject_circular_globals(&self, declared: &HashMap<u32, &TopLevel<'t>>) -> Compiled {
        let needs = |index: u32| self.globals.get(index as usize).map_or(&[][..], |g| &g.needs);
        let Some(at) = find_cycle(self.globals.len(), needs) else { return Ok(()) };
        let name = self.globals.get(at as usize).map(|global| global.name.to_string());
        let message = format!("the variable `{}` depends on itself", name.unwrap_or_default());
        let place = declared.get(&at).map_or(self.place, |top| Place::of(top.node));
        Err(LoadError::at(place, ErrorKind::Invalid, message))
    }

    fn attribute_sets(&mut self) -> Compiled {
        for index in 0..self.sets.len() {
            let start = self.ops.len();
            let mut slots = 0;
            let declarations = match self.sets.get_mut(index) {
                Some(set) => std::mem::take(&mut set.declarations),
                None => Vec::new(),
            };
            let mut uses = Vec::new();
            // Later declarations override attributes of earlier ones.
            for top in &declarations {
                self.enter(top.node, top.module);
                self.slots = slots;
                uses.extend(self.use_sets(top.node, false)?);
                for child in top.node.elements() {
                    if !is_xsl(child, "attribute") {
                        let message = "`xsl:attribute-set` may contain `xsl:attribute` only";
                        return Err(self.invalid(child, message));
                    }
                    self.instruction(child)?;
                }
                slots = self.slots;
            }
            self.emit(Op::Return);
            if let Some(set) = self.sets.get_mut(index) {
                set.block = Block { start, slots: slots as usize };
                (set.declarations, set.uses) = (declarations, uses);
            }
        }
        let uses = |index: u32| self.sets.get(index as usize).map_or(&[][..], |set| &set.uses);
        let Some(at) = find_cycle(self.sets.len(), uses) else { return Ok(()) };
        let declared = self.sets.get(at as usize).and_then(|set| set.declarations.first());
        let place = declared.map_or(self.place, |top| Place::of(top.node));
        Err(LoadError::at(place, ErrorKind::Invalid, "the attribute set uses itself"))
    }

    fn finish(mut self) -> Program {
        self.prebuild_markup();
        let (rules, modes) = Modes::new(self.rules, self.modes.len());
        Program {
            serial: next_serial(),
            ops: self.ops,
            places: self.places,
            modules: Vec::new(),
            templates: self.templates,
            rules,
            modes,
            globals: self.globals,
            sets: self.sets.into_iter().map(|set| set.block).collect(),
            keys: self.keys,
            formats: self.formats.into_iter().map(|(name, (symbols, _))| (name, symbols)).collect(),
            spaces: self.spaces,
            output: Arc::new(self.output),
            names: self.selected.into_inner().values,
            scopes: self.scopes.into_inner().values,
            unknown_functions: self.unknown_functions.into_inner().values,
        }
    }
}

/// A member of a cycle in a graph of `len` nodes, if there is one. Looks at each edge once.
fn find_cycle<'g>(len: usize, edges: impl Fn(u32) -> &'g [u32]) -> Option<u32> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; len];
    for start in 0..u32::try_from(len).unwrap_or(u32::MAX) {
        let mut stack = vec![(start, 0usize)];
        while let Some((node, next)) = stack.last_mut() {
            let at = *node;
            let mark = marks.get_mut(at as usize)?;
            if *next == 0 {
                match *mark {
                    Mark::Open => return Some(at),
                    Mark::Done => {
                        stack.pop();
                        continue;
                    }
                    Mark::New => *mark = Mark::Open,
                }
            }
            match edges(at).get(*next) {
                Some(to) => {
                    *next = next.saturating_add(1);
                    stack.push((*to, 0));
                }
                None => {
                    *mark = Mark::Done;
                    stack.pop();
                }
            }
        }
    }
    None
}

/// Whether the element is a child of `xsl:stylesheet`; the root of a simplified stylesheet is not.
fn is_top_level(node: Node<'_>) -> bool {
    let parent = node.parent();
    parent.is_some_and(|parent| is_xsl(parent, "stylesheet") || is_xsl(parent, "transform"))
}

/// `xsl:NAME` and `xsl:NAME/@ATTRIBUTE` for all elements.
#[cfg(feature = "knock-out")]
pub(crate) fn element_features() -> Vec<String> {
    let mut all = Vec::new();
    for row in tables::ELEMENTS {
        all.push(format!("xsl:{}", row.name));
        all.extend(row.attributes.iter().map(|name| format!("xsl:{}/@{name}", row.name)));
    }
    all
}

/// `element-available()`: section 15.
pub(crate) fn is_instruction(local: &str) -> bool {
    tables::find(local).is_some_and(|row| row.placement == tables::Placement::Body)
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn cycles_are_found_and_shared_nodes_are_not_cycles() {
        let find = |graph: &[&[u32]]| find_cycle(graph.len(), |node| graph[node as usize]);
        assert_eq!(find(&[&[1, 2], &[3], &[3], &[]]), None);
        assert_eq!(find(&[&[1], &[2], &[1]]), Some(1));
        assert_eq!(find(&[&[], &[1]]), Some(1));
        let chain: Vec<Vec<u32>> =
            (0..50_000).map(|n| vec![n + 1, n + 1]).chain([vec![]]).collect();
        assert_eq!(find_cycle(chain.len(), |node| &chain[node as usize]), None);
    }
}
