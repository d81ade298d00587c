//! What the files of a crate declare: types with their fields and methods, and what functions return.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Imports, Item, Names};
use super::sources::{Module, Sources, is_of_tests};

/// Types that stand for what they hold: a call of a method is one of the held type.
const TRANSPARENT: [&str; 7] = ["Rc", "Arc", "Box", "Ref", "RefMut", "Pin", "Weak"];

/// Types that are named without an import.
const PRELUDE: [&str; 21] = [
    "Option", "Result", "String", "Vec", "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8",
    "isize", "str", "u128", "u16", "u32", "u64", "u8", "usize",
];

/// Upper limit of aliases and targets of `Deref` that a type is followed through.
const STEPS: usize = 8;

/// A type as written, and where.
#[derive(Clone)]
pub struct Written {
    pub module: Module,
    pub kind: syn::Type,
    /// What `Self` is there.
    pub own: Option<Item>,
}

impl Written {
    fn with(&self, kind: &syn::Type) -> Written {
        Written { kind: kind.clone(), ..self.clone() }
    }

    /// Without references, and what else stands for what it holds.
    fn bare(&self) -> Written {
        match &self.kind {
            syn::Type::Group(inner) => self.with(&inner.elem).bare(),
            syn::Type::Paren(inner) => self.with(&inner.elem).bare(),
            syn::Type::Reference(inner) => self.with(&inner.elem).bare(),
            kind => self.argument_of(kind, &TRANSPARENT).map_or_else(|| self.clone(), |inner| inner.bare()),
        }
    }

    fn argument_of(&self, kind: &syn::Type, names: &[&str]) -> Option<Written> {
        let syn::Type::Path(path) = kind else { return None };
        let last = path.path.segments.last().filter(|last| names.iter().any(|name| last.ident == name))?;
        let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
        arguments.args.iter().find_map(|argument| match argument {
            syn::GenericArgument::Type(kind) => Some(self.with(kind)),
            _ => None,
        })
    }

    /// The first argument of a type with one of these names: `T` of `Option<T>`.
    pub fn argument(&self, names: &[&str]) -> Option<Written> {
        let bare = self.bare();
        bare.argument_of(&bare.kind, names)
    }

    /// The path of the type, or of the first trait of `dyn` and `impl`.
    fn path(&self) -> Option<Names> {
        let first = |bounds: &syn::punctuated::Punctuated<syn::TypeParamBound, _>| {
            bounds.iter().find_map(|bound| match bound {
                syn::TypeParamBound::Trait(bound) => Some(names_of(&bound.path)),
                _ => None,
            })
        };
        match self.bare().kind {
            syn::Type::Path(path) => Some(names_of(&path.path)),
            syn::Type::ImplTrait(kind) => first(&kind.bounds),
            syn::Type::TraitObject(kind) => first(&kind.bounds),
            _ => None,
        }
    }
}

/// The names of a path, without arguments.
pub fn names_of(path: &syn::Path) -> Names {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// A method, or an associated function.
pub struct Method {
    /// The file of the `impl` or the trait.
    pub module: Module,
    pub returns: Option<Written>,
}

pub struct Declared<'a> {
    imports: &'a Imports,
    pub fields: BTreeMap<Item, BTreeMap<String, Written>>,
    /// What functions return.
    pub functions: BTreeMap<Item, Written>,
    /// Files with methods of a name. One that implements a trait of this crate is not there: the trait's is.
    pub by_name: BTreeMap<String, BTreeSet<Module>>,
    /// Names of methods of other crates' traits that are implemented here.
    pub implemented: BTreeSet<String>,
    /// Names of methods that `#[bitfield]` makes of fields.
    pub generated: BTreeSet<String>,
    /// By type and by trait; several of a name if they depend on features or on arguments of the type.
    methods: BTreeMap<Item, BTreeMap<String, Vec<Method>>>,
    /// Traits of this crate by type.
    traits: BTreeMap<Item, BTreeSet<Item>>,
    /// What aliases stand for.
    aliases: BTreeMap<Item, Written>,
    /// Targets of `Deref`.
    targets: BTreeMap<Item, Written>,
}

impl<'a> Declared<'a> {
    pub fn of(sources: &Sources, imports: &'a Imports) -> Declared<'a> {
        let mut declared = Declared {
            imports,
            fields: BTreeMap::new(),
            functions: BTreeMap::new(),
            by_name: BTreeMap::new(),
            implemented: BTreeSet::new(),
            generated: BTreeSet::new(),
            methods: BTreeMap::new(),
            traits: BTreeMap::new(),
            aliases: BTreeMap::new(),
            targets: BTreeMap::new(),
        };
        // Implementations may be of aliases, which are known then.
        for is_implementation in [false, true] {
            for (module, source) in sources {
                declared.items(module, &source.syntax.items, is_implementation);
            }
        }
        declared
    }

    fn items(&mut self, module: &Module, items: &[syn::Item], is_implementation: bool) {
        let written = |kind: &syn::Type| Written { module: module.clone(), kind: kind.clone(), own: None };
        let named = |name: &syn::Ident| (module.clone(), name.to_string());
        for item in items {
            match item {
                syn::Item::Mod(item) if !is_of_tests(&item.attrs) => {
                    let inside = item.content.as_ref().map_or(&[][..], |(_, items)| items);
                    self.items(module, inside, is_implementation);
                }
                syn::Item::Impl(item) if is_implementation && !is_of_tests(&item.attrs) => {
                    self.implementation(module, item);
                }
                _ if is_implementation => {}
                syn::Item::Fn(item) if !is_of_tests(&item.attrs) => {
                    if let syn::ReturnType::Type(_, kind) = &item.sig.output {
                        self.functions.insert(named(&item.sig.ident), written(kind));
                    }
                }
                syn::Item::Struct(item) if !is_of_tests(&item.attrs) => {
                    let fields = (0..).zip(&item.fields).map(|(index, field): (usize, _)| {
                        let name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
                        (name, written(&field.ty))
                    });
                    let fields: BTreeMap<String, Written> = fields.collect();
                    if item.attrs.iter().any(|attribute| attribute.path().is_ident("bitfield")) {
                        for name in fields.keys() {
                            self.generated.extend([
                                name.clone(),
                                format!("with_{name}"),
                                format!("set_{name}"),
                            ]);
                        }
                    }
                    self.fields.insert(named(&item.ident), fields);
                }
                syn::Item::Type(item) => drop(self.aliases.insert(named(&item.ident), written(&item.ty))),
                syn::Item::Trait(item) => self.trait_of(module, item),
                _ => {}
            }
        }
    }

    fn trait_of(&mut self, module: &Module, item: &syn::ItemTrait) {
        let own = (module.clone(), item.ident.to_string());
        for method in &item.items {
            if let syn::TraitItem::Fn(method) = method {
                self.add(module, Some(&own), &method.sig, true);
            }
        }
    }

    fn implementation(&mut self, module: &Module, item: &syn::ItemImpl) {
        let written = Written { module: module.clone(), kind: (*item.self_ty).clone(), own: None };
        let own = self.item(&written);
        let implemented = item.trait_.as_ref().map(|(_, path, _)| names_of(path));
        let local = implemented.as_ref().and_then(|path| {
            let found = self.imports.find(module, path);
            found.into_iter().find(|item| self.methods.contains_key(item))
        });
        for inside in &item.items {
            match inside {
                syn::ImplItem::Fn(method) if !is_of_tests(&method.attrs) => {
                    self.add(module, own.as_ref(), &method.sig, implemented.is_none());
                    if implemented.is_some() && local.is_none() {
                        self.implemented.insert(method.sig.ident.to_string());
                    }
                }
                syn::ImplItem::Type(target) if target.ident == "Target" => {
                    let target = Written { own: own.clone(), kind: target.ty.clone(), ..written.clone() };
                    self.targets.extend(own.clone().map(|own| (own, target)));
                }
                _ => {}
            }
        }
        if let (Some(own), Some(local)) = (own, local) {
            self.traits.entry(own).or_default().insert(local);
        }
    }

    fn add(&mut self, module: &Module, own: Option<&Item>, signature: &syn::Signature, is_by_name: bool) {
        let name = signature.ident.to_string();
        if is_by_name && signature.receiver().is_some() {
            self.by_name.entry(name.clone()).or_default().insert(module.clone());
        }
        let Some(own) = own else { return };
        let returns = match &signature.output {
            syn::ReturnType::Default => None,
            syn::ReturnType::Type(_, kind) => {
                Some(Written { module: module.clone(), kind: (**kind).clone(), own: Some(own.clone()) })
            }
        };
        let methods = self.methods.entry(own.clone()).or_default();
        methods.entry(name).or_default().push(Method { module: module.clone(), returns });
    }

    /// The type or trait of this crate that is written there.
    pub fn item(&self, written: &Written) -> Option<Item> {
        let mut written = written.clone();
        for _ in 0..STEPS {
            let path = written.path()?;
            if path == ["Self"] {
                return written.own;
            }
            let found = self.imports.find(&written.module, &path);
            let item = found.first().filter(|_| found.len() == 1)?;
            match self.aliases.get(item) {
                Some(alias) => written = alias.clone(),
                None => return Some(item.clone()),
            }
        }
        None
    }

    /// Whether a type is certainly not of this crate.
    pub fn is_foreign(&self, written: &Written) -> bool {
        match (written.path().as_deref(), written.bare().kind) {
            (Some([name]), _) if PRELUDE.contains(&name.as_str()) => true,
            (Some(path), _) => self.imports.is_foreign(&written.module, path),
            (None, kind) => matches!(kind, syn::Type::Array(_) | syn::Type::Slice(_) | syn::Type::Tuple(_)),
        }
    }

    /// The methods of this name of a type, of its traits, or of what it derefs to.
    pub fn method(&self, item: &Item, name: &str) -> Option<&[Method]> {
        let mut item = item.clone();
        for _ in 0..STEPS {
            let through = std::iter::once(&item).chain(self.traits.get(&item).into_iter().flatten());
            let mut methods = through.filter_map(|item| self.methods.get(item)?.get(name));
            if let Some(methods) = methods.next() {
                return Some(methods);
            }
            item = self.item(self.targets.get(&item)?)?;
        }
        None
    }
}
