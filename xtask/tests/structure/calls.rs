//! Method calls between the files of a crate.
//!
//! The type of a receiver is followed as far as declarations say it: `self`, fields, parameters, `let`, and what functions and methods
//! return, through references, `Rc`, `RefCell` and `Option`. Where it stays unknown, the name of the method decides, if only one file
//! defines it and neither std nor a lower crate has one of that name: else the call is ambiguous, and does not count. A call of a trait's
//! method through the trait leads to the file of the trait, not to those that implement it.
//!
//! It does not see ambiguous calls; which implementation a trait object or a type parameter calls; what is in macros, unless it reads as
//! expressions with commas between them; calls of other crates, such as of a trait that is implemented here; fields, which an import of
//! their type shows only where it is named.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use super::declared::{Declared, Method, Written, names_of};
use super::graph::Graph;
use super::imports::{Imports, Item};
use super::sources::{Module, Sources, is_of_tests};

/// Calls of a crate, counted.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The file of the method is known.
    pub resolved: usize,
    /// The crate has methods of this name, and which one is called, if any, is unknown.
    pub ambiguous: usize,
    /// The crate has no method of this name, or the receiver is of another crate.
    pub elsewhere: usize,
}

/// Adds the calls between files to the graph. `elsewhere`: names of methods that std and lower crates have.
pub fn add_to(
    graph: &mut Graph,
    sources: &Sources,
    imports: &Imports,
    declared: &Declared<'_>,
    elsewhere: &BTreeSet<String>,
) -> Tally {
    let mut tally = Tally::default();
    for (module, source) in sources {
        let mut caller = Caller {
            imports,
            declared,
            elsewhere,
            module,
            own: None,
            locals: BTreeMap::new(),
            tally: &mut tally,
            graph: &mut *graph,
        };
        caller.visit_file(&source.syntax);
    }
    tally
}

/// A file whose calls are looked for.
struct Caller<'a> {
    imports: &'a Imports,
    declared: &'a Declared<'a>,
    elsewhere: &'a BTreeSet<String>,
    module: &'a Module,
    /// `Self`: the type or the trait.
    own: Option<Item>,
    /// Types of variables, where they are known.
    locals: BTreeMap<String, Option<Written>>,
    tally: &'a mut Tally,
    graph: &'a mut Graph,
}

impl Caller<'_> {
    fn written(&self, kind: &syn::Type) -> Written {
        Written { module: self.module.clone(), kind: kind.clone(), own: self.own.clone() }
    }

    fn of_path(&self, path: &[String]) -> Option<Written> {
        Some(self.written(&syn::parse_str(&path.join("::")).ok()?))
    }

    /// The type of an expression, if declarations say it.
    fn type_of(&self, expression: &syn::Expr) -> Option<Written> {
        use syn::Expr;
        match expression {
            Expr::Await(inner) => self.type_of(&inner.base),
            Expr::Call(call) => self.type_of_call(call),
            Expr::Field(field) => {
                let item = self.declared.item(&self.type_of(&field.base)?)?;
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(index) => index.index.to_string(),
                };
                self.declared.fields.get(&item)?.get(&name).cloned()
            }
            Expr::MethodCall(call) => self.type_of_method(call),
            Expr::Paren(inner) => self.type_of(&inner.expr),
            Expr::Path(path) if path.path.is_ident("self") => self.of_path(&["Self".to_owned()]),
            Expr::Path(path) => self.locals.get(&path.path.get_ident()?.to_string())?.clone(),
            Expr::Reference(inner) => self.type_of(&inner.expr),
            Expr::Struct(literal) => self.of_path(&names_of(&literal.path)),
            Expr::Try(inner) => self.type_of(&inner.expr)?.argument(&["Option", "Result"]),
            Expr::Unary(inner) if matches!(inner.op, syn::UnOp::Deref(_)) => self.type_of(&inner.expr),
            _ => None,
        }
    }

    fn type_of_call(&self, call: &syn::ExprCall) -> Option<Written> {
        let syn::Expr::Path(function) = &*call.func else { return None };
        let path = names_of(&function.path);
        let (name, before) = path.split_last()?;
        if ["Rc", "Arc", "Box", "RefCell"].contains(&before.last().map_or("", String::as_str))
            && name == "new"
        {
            return self.type_of(call.args.first()?);
        }
        if let Some(methods) = self.associated(&path) {
            return methods.first()?.returns.clone();
        }
        let found = self.imports.find(self.module, &path);
        self.declared.functions.get(found.first().filter(|_| found.len() == 1)?).cloned()
    }

    fn type_of_method(&self, call: &syn::ExprMethodCall) -> Option<Written> {
        let receiver = self.type_of(&call.receiver)?;
        if let Some(methods) = self.method(&receiver, &call.method.to_string()) {
            return methods.first()?.returns.clone();
        }
        match call.method.to_string().as_str() {
            "borrow" | "borrow_mut" => Some(receiver.argument(&["RefCell"]).unwrap_or(receiver)),
            "get" => receiver.argument(&["Cell"]),
            "unwrap" | "expect" => receiver.argument(&["Option", "Result"]),
            "clone" | "as_ref" | "as_mut" => Some(receiver),
            _ => None,
        }
    }

    fn method(&self, receiver: &Written, name: &str) -> Option<&[Method]> {
        self.declared.method(&self.declared.item(receiver)?, name)
    }

    /// The methods that `Type::name` may be.
    fn associated(&self, path: &[String]) -> Option<&[Method]> {
        let (name, before) = path.split_last()?;
        let of = if before.is_empty() { None } else { self.of_path(before) };
        self.method(&of?, name)
    }

    /// Counts a call whose method is one of these.
    fn resolved(&mut self, name: &str, files: &BTreeSet<Module>) {
        let [file] = files.iter().collect::<Vec<_>>()[..] else {
            self.tally.ambiguous += 1;
            return;
        };
        self.tally.resolved += 1;
        self.graph.add(self.module, file, format!(".{name}()"));
    }

    fn call(&mut self, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        let receiver = self.type_of(&call.receiver);
        if let Some(methods) = receiver.as_ref().and_then(|receiver| self.method(receiver, &name)) {
            let files = methods.iter().map(|method| method.module.clone()).collect();
            return self.resolved(&name, &files);
        }
        let is_implemented = self.declared.implemented.contains(&name);
        let is_elsewhere = is_implemented || self.elsewhere.contains(&name);
        match self.declared.by_name.get(&name) {
            // A trait of this crate that is called on it is imported.
            _ if receiver.is_some_and(|receiver| self.declared.is_foreign(&receiver)) => {
                self.tally.elsewhere += 1
            }
            None if !is_implemented => self.tally.elsewhere += 1,
            Some(files) if !is_elsewhere => self.resolved(&name, &files.clone()),
            _ => self.tally.ambiguous += 1,
        }
    }

    /// Visits with the variables that are there, and forgets those that are new.
    fn scope(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = self.locals.clone();
        visit(self);
        self.locals = before;
    }

    fn own(&mut self, own: Option<Item>, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.own, own);
        visit(self);
        self.own = before;
    }

    fn function(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) {
        self.scope(|caller| {
            caller.locals.clear();
            for argument in &signature.inputs {
                if let syn::FnArg::Typed(argument) = argument {
                    caller.bind(&argument.pat, Some(caller.written(&argument.ty)));
                }
            }
            body.into_iter().for_each(|body| caller.visit_block(body));
        });
    }

    fn bind(&mut self, pattern: &syn::Pat, kind: Option<Written>) {
        match pattern {
            syn::Pat::Ident(name) => drop(self.locals.insert(name.ident.to_string(), kind)),
            syn::Pat::Type(pattern) => self.bind(&pattern.pat, Some(self.written(&pattern.ty))),
            // Shadows variables of these names.
            pattern => self.visit_pat(pattern),
        }
    }
}

impl<'ast> Visit<'ast> for Caller<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_of_tests(&item.attrs) {
            self.function(&item.sig, Some(&item.block));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_of_tests(&item.attrs) {
            let own = self.declared.item(&self.written(&item.self_ty));
            self.own(own, |caller| syn::visit::visit_item_impl(caller, item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let own = Some((self.module.clone(), item.ident.to_string()));
        self.own(own, |caller| syn::visit::visit_item_trait(caller, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_of_tests(&item.attrs) {
            self.function(&item.sig, Some(&item.block));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, item.default.as_ref());
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.scope(|caller| syn::visit::visit_block(caller, block));
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.scope(|caller| syn::visit::visit_arm(caller, arm));
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.scope(|caller| {
            closure.inputs.iter().for_each(|input| caller.bind(input, None));
            caller.visit_expr(&closure.body);
        });
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let init = local.init.as_ref();
        let kind = init.and_then(|init| self.type_of(&init.expr));
        init.into_iter().for_each(|init| self.visit_local_init(init));
        self.bind(&local.pat, kind);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.locals.insert(pattern.ident.to_string(), None);
        syn::visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.call(call);
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let names = names_of(&path.path);
        if let Some(methods) = self.associated(&names) {
            let files = methods.iter().map(|method| method.module.clone()).collect();
            self.resolved(names.last().unwrap(), &files);
        }
        syn::visit::visit_expr_path(self, path);
    }

    fn visit_macro(&mut self, given: &'ast syn::Macro) {
        let expressions = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        for expression in given.parse_body_with(expressions).into_iter().flatten() {
            // Not of the file's syntax, and so of no lifetime that a visitor of it may keep.
            Caller::visit_expr(self, &expression);
        }
    }
}
