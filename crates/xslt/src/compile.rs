//! From sheets to a program: the declarations of all sheets first, then the code of each.

mod declare;
mod instruction;
mod literal;
mod names;
mod number;
mod output;
mod stamps;
mod tables;
mod values;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use xml::{Document, Node};
use xpath::{ExpandedName, VariableId};

use crate::error::{CompileError, Place};
use crate::load::{Loader, Resolver, Top, is_xsl, said};
use crate::pool::Pool;
use crate::program::{
    Block, GLOBAL, Global, Key, Op, OutputSpec, Program, Rule, Scope, Spaces, Symbols, Template,
};
use crate::rules::Modes;

type Compiled<T = ()> = Result<T, CompileError>;

pub(crate) struct Compiler<'t> {
    ops: Vec<Op>,
    places: Vec<Place>,
    /// Of the element under way.
    place: Place,
    uri: String,
    templates: Vec<Template>,
    rules: Vec<Rule>,
    modes: HashMap<ExpandedName, u32>,
    params: HashMap<ExpandedName, u32>,
    globals: Vec<Global>,
    global_names: HashMap<ExpandedName, (u32, u32)>,
    named: HashMap<ExpandedName, (usize, u32)>,
    sets: Vec<Block>,
    set_names: HashMap<ExpandedName, usize>,
    keys: Vec<Key>,
    key_names: Vec<ExpandedName>,
    formats: HashMap<ExpandedName, (Symbols, u32)>,
    spaces: Spaces,
    output: OutputSpec,
    said: output::Said,
    aliases: HashMap<String, (String, String)>,
    /// Local variables in scope, and their slots.
    scope: Vec<(ExpandedName, u32)>,
    slots: u32,
    depth: usize,
    tops: Vec<Top<'t>>,
    roots: Vec<(Node<'t>, String)>,
    /// Names that selections ask for.
    asked: RefCell<Vec<ExpandedName>>,
    scopes: RefCell<Vec<Scope>>,
    missing: RefCell<Vec<ExpandedName>>,
}

pub(crate) fn compile(
    main: &Document,
    pool: &Pool,
    resolver: &dyn Resolver,
) -> Result<Program, CompileError> {
    let mut loader = Loader::new(pool, resolver);
    loader.sheet(main, "")?;
    let mut compiler = Compiler {
        ops: vec![Op::Halt],
        places: vec![Place::default()],
        place: Place::default(),
        uri: String::new(),
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
        key_names: Vec::new(),
        formats: HashMap::new(),
        spaces: Spaces::default(),
        output: OutputSpec::default(),
        said: output::Said::default(),
        aliases: HashMap::new(),
        scope: Vec::new(),
        slots: 0,
        depth: 0,
        tops: loader.tops,
        roots: loader.roots,
        asked: RefCell::default(),
        scopes: RefCell::default(),
        missing: RefCell::default(),
    };
    compiler.declare_all()?;
    compiler.code_all()?;
    Ok(compiler.finish())
}

impl<'t> Compiler<'t> {
    fn code_all(&mut self) -> Compiled {
        let tops = std::mem::take(&mut self.tops);
        let mut templates = 0usize;
        let mut globals: HashMap<u32, &Top<'t>> = HashMap::new();
        for top in &tops {
            self.enter(top.node, &top.uri);
            let node = top.node;
            if !is_top_level(node) {
                // A simplified stylesheet: section 2.3.
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
                self.enter(top.node, &top.uri);
                self.global(index, top.node)?;
            }
        }
        self.attribute_sets(&tops)
    }

    fn enter(&mut self, node: Node<'t>, uri: &str) {
        if self.uri != uri {
            uri.clone_into(&mut self.uri);
        }
        self.place = crate::load::place(node, uri);
        self.scope.clear();
        self.slots = 0;
    }

    fn simplified(&mut self, index: usize, node: Node<'t>, top: &Top<'t>) -> Compiled {
        let start = self.ops.len();
        self.literal(node)?;
        self.emit(Op::Return);
        self.finish_template(index, start, top);
        self.rule(node, "/", (None, 0), index, top)
    }

    fn finish_template(&mut self, index: usize, start: usize, top: &Top<'t>) {
        let block = Block { start, slots: self.slots as usize };
        if let Some(template) = self.templates.get_mut(index) {
            *template = Template { block, imports: (top.low, top.precedence) };
        }
    }

    fn template(&mut self, index: usize, node: Node<'t>, top: &Top<'t>) -> Compiled {
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
        let priority = match said(node, "priority") {
            Some(text) => {
                let number = xpath::string_to_number(text);
                if number.is_nan() {
                    return Err(self.refuse(node, "`priority` has to be a number"));
                }
                Some(number)
            }
            None => None,
        };
        match said(node, "match") {
            Some(pattern) => self.rule(node, pattern, (priority, mode), index, top),
            None if said(node, "name").is_none() => {
                Err(self.refuse(node, "a template needs `match` or `name`"))
            }
            None if said(node, "mode").is_some() || priority.is_some() => {
                Err(self.refuse(node, "`mode` and `priority` need `match`"))
            }
            None => Ok(()),
        }
    }

    fn mode(&mut self, name: ExpandedName) -> u32 {
        let next = u32::try_from(self.modes.len()).unwrap_or(u32::MAX);
        *self.modes.entry(name).or_insert(next)
    }

    /// A rule for each alternative of a pattern.
    fn rule(
        &mut self,
        node: Node<'t>,
        pattern: &str,
        (priority, mode): (Option<f64>, u32),
        template: usize,
        top: &Top<'t>,
    ) -> Compiled {
        self.scope.clear();
        let pattern = self.pattern(node, pattern)?;
        for pattern in pattern.into_alternatives() {
            use xpath::Matched;
            let plain = match pattern.matched() {
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
                always: plain,
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
        self.bind(node, 0)?;
        self.emit(Op::Return);
        let reads = self.ops.get(start..).unwrap_or(&[]).iter().filter_map(|op| {
            if let Op::Set(_, value) = op { Some(value.variables()) } else { None }
        });
        let needs = reads.flatten().filter(|VariableId(id)| id & GLOBAL != 0);
        let needs = needs.map(|VariableId(id)| id & !GLOBAL).collect();
        let block = Block { start, slots: self.slots as usize };
        if let Some(global) = self.globals.get_mut(index) {
            global.block = block;
            global.needs = needs;
        }
        Ok(())
    }

    fn attribute_sets(&mut self, tops: &[Top<'t>]) -> Compiled {
        let mut names: Vec<(ExpandedName, usize)> =
            self.set_names.iter().map(|(name, index)| (name.clone(), *index)).collect();
        names.sort_by_key(|(_, index)| *index);
        for (name, index) in names {
            let start = self.ops.len();
            let mut slots = 0;
            // Precedence ascends along `tops`: what comes later replaces what came before.
            for top in tops.iter().filter(|top| is_xsl(top.node, "attribute-set")) {
                self.enter(top.node, &top.uri);
                if self.expanded(top.node, "name")? != name {
                    continue;
                }
                self.slots = slots;
                self.use_sets(top.node, false)?;
                for child in top.node.children().filter(|child| child.is_element()) {
                    if !is_xsl(child, "attribute") {
                        return Err(
                            self.refuse(child, "an attribute set holds `xsl:attribute` only")
                        );
                    }
                    self.instruction(child)?;
                }
                slots = self.slots;
            }
            self.emit(Op::Return);
            if let Some(block) = self.sets.get_mut(index) {
                *block = Block { start, slots: slots as usize };
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Program {
        self.stamp_all();
        let modes = Modes::new(&self.rules, self.modes.len());
        Program {
            ops: self.ops,
            places: self.places,
            templates: self.templates,
            rules: self.rules,
            modes,
            globals: self.globals,
            sets: self.sets,
            keys: self.keys,
            formats: self.formats.into_iter().map(|(name, (symbols, _))| (name, symbols)).collect(),
            spaces: self.spaces,
            output: Arc::new(self.output),
            names: self.asked.into_inner(),
            scopes: self.scopes.into_inner(),
            missing: self.missing.into_inner(),
            limits: crate::Limits::default(),
        }
    }
}

/// Whether the element stands in an `xsl:stylesheet`; the one of a simplified sheet doesn't.
fn is_top_level(node: Node<'_>) -> bool {
    let parent = node.parent();
    parent.is_some_and(|parent| is_xsl(parent, "stylesheet") || is_xsl(parent, "transform"))
}

/// `xsl:NAME` and `xsl:NAME/@ATTRIBUTE`, all of them.
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
    tables::find(local).is_some_and(|row| row.stands == tables::Stands::Body)
}
