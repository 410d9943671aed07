//! Finds the code of each mutant, and writes its alternative.
//!
//! # Purpose
//!
//! cargo-mutants replaces the text between two places. An alternative needs the whole expression, which only a parser
//! finds:
//!
//! ```text
//! { body }            { if is(1) { return VALUE; } body }
//! a + b               (if is(1) { (a) - (b) } else { a + b })
//! !a                  (if is(1) { (a) } else { !a })
//! P if guard => a     P if (if is(1) { true } else { guard }) => a
//! P => a              P if !is(1) => a
//! S { f: a, ..b }     (if is(1) { S { ..b } } else { S { f: a, ..b } })
//! ```
//!
//! # Invariants
//!
//! All edits are insertions. The operands of a replaced operator stay what they were, whatever its precedence is.

use std::collections::HashMap;
use std::error::Error;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ReturnType, Signature, UnOp};

use super::{Mutant, Reasons};

/// A text to insert.
pub(crate) struct Edit {
    /// The offset in bytes.
    pub(crate) at: usize,
    pub(crate) text: String,
    /// The mutant, if the text is an alternative.
    pub(crate) mutant: Option<usize>,
    /// The order among edits of one place: ends of expressions, shorter ones first; then starts, longer ones first.
    rank: (bool, isize),
}

/// What a mutant changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Genre {
    Function,
    Operator,
    Guard,
    Arm,
    Field,
}

/// Returns the genre and the replacement, as cargo-mutants describes them.
fn described(description: &str) -> Option<(Genre, &str)> {
    let word = |at: usize| description.split(' ').nth(at);
    if description.starts_with("delete match arm ") {
        return Some((Genre::Arm, ""));
    }
    if description.starts_with("delete field ") {
        return Some((Genre::Field, ""));
    }
    if description.starts_with("delete ") {
        return Some((Genre::Operator, ""));
    }
    if description.starts_with("replace match guard ") {
        let (_, replacement) = description.rsplit_once(" with ")?;
        return Some((Genre::Guard, replacement.split(' ').next()?));
    }
    let is_operator = word(1)?.chars().all(|letter| letter.is_ascii_punctuation());
    if is_operator && word(2)? == "with" {
        return Some((Genre::Operator, word(3)?));
    }
    let (_, replacement) = description.split_once(" with ")?;
    Some((Genre::Function, replacement))
}

/// Returns the edits of a file in their order. Adds a reason for each mutant that cannot be written as an alternative.
pub(crate) fn edits(
    source: &str,
    mutants: &[&Mutant],
    reasons: &mut Reasons,
) -> Result<Vec<Edit>, Box<dyn Error>> {
    let mut wanted: HashMap<_, Vec<_>> = HashMap::new();
    for mutant in mutants {
        let (genre, replacement) = described(&mutant.description)
            .ok_or_else(|| format!("unknown kind of mutant: {}", mutant.description))?;
        let place = (mutant.line, mutant.column - 1, genre);
        let alternative = (mutant.number, replacement.to_owned());
        wanted.entry(place).or_default().push(alternative);
    }
    let mut finder = Finder {
        source,
        wanted,
        edits: Vec::new(),
        reasons,
        constant: None,
    };
    finder.visit_file(&syn::parse_file(source)?);
    let Finder {
        wanted, mut edits, ..
    } = finder;
    for (number, _) in wanted.into_values().flatten() {
        reasons.insert(number, "uncompiled\tinside a macro".to_owned());
    }
    // Stable: the parts of an edit were added in their order.
    edits.sort_by_key(|edit| (edit.at, edit.rank));
    Ok(edits)
}

struct Finder<'f> {
    source: &'f str,
    /// By line, column from 0, and genre: the numbers and replacements of mutants that were not found yet.
    wanted: HashMap<(usize, usize, Genre), Vec<(usize, String)>>,
    edits: Vec<Edit>,
    reasons: &'f mut Reasons,
    /// Why the code that is visited must be constant.
    constant: Option<&'static str>,
}

impl Finder<'_> {
    /// Returns the mutants of a place, unless they cannot be selected while the program runs.
    fn take(&mut self, span: Span, genre: Genre) -> Vec<(usize, String)> {
        let start = span.start();
        let mutants = self.wanted.remove(&(start.line, start.column, genre));
        let mutants = mutants.unwrap_or_default();
        if let Some(reason) = self.constant {
            self.refuse(&mutants, reason);
            return Vec::new();
        }
        mutants
    }

    fn refuse(&mut self, mutants: &[(usize, String)], reason: &str) {
        let reasons = mutants
            .iter()
            .map(|(number, _)| (*number, format!("uncompiled\t{reason}")));
        self.reasons.extend(reasons);
    }

    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    fn insert(&mut self, at: usize, rank: (bool, isize), text: String, mutant: Option<usize>) {
        self.edits.push(Edit {
            at,
            text,
            mutant,
            rank,
        });
    }

    /// Adds alternatives to an expression.
    fn replace(&mut self, span: Span, alternatives: Vec<(usize, String)>) {
        if alternatives.is_empty() {
            return;
        }
        let range = span.byte_range();
        let length = range.len() as isize;
        let rank = (true, -length);
        self.insert(range.start, rank, "(".to_owned(), None);
        for (number, text) in alternatives {
            let text = format!("if crate::mutants::is({number}) {{ {text} }} else ");
            self.insert(range.start, rank, text, Some(number));
        }
        self.insert(range.start, rank, "{ ".to_owned(), None);
        self.insert(range.end, (false, length), " })".to_owned(), None);
    }

    /// Visits code with a reason why it must be constant.
    fn within(&mut self, reason: &'static str, visit: impl FnOnce(&mut Self)) {
        let before = self.constant.replace(self.constant.unwrap_or(reason));
        visit(self);
        self.constant = before;
    }

    fn function(&mut self, signature: &Signature, block: &Block, visit: impl FnOnce(&mut Self)) {
        if signature.constness.is_some() {
            self.within("in a `const fn`", |finder| {
                finder.values(signature, block);
                visit(finder);
            });
        } else {
            self.values(signature, block);
            // A function inside a constant runs when the program does.
            let before = self.constant.take();
            visit(self);
            self.constant = before;
        }
    }

    /// Adds the values that a function can return instead.
    fn values(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let mutants = self.take(first.span(), Genre::Function);
        if let ReturnType::Type(_, output) = &signature.output
            && matches!(**output, syn::Type::ImplTrait(_))
        {
            self.refuse(&mutants, "returns a value of an unnamed type");
            return;
        }
        let start = block.brace_token.span.open().byte_range().end;
        for (number, value) in mutants {
            let text = format!(" if crate::mutants::is({number}) {{ return {value}; }}");
            self.insert(start, (false, isize::MAX), text, Some(number));
        }
    }
}

/// Returns `true` if the condition binds names.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => {
            matches!(binary.op, BinOp::And(_)) && (binds(&binary.left) || binds(&binary.right))
        }
        _ => false,
    }
}

/// Visits what is, or contains, code that must be constant.
macro_rules! visits_constants {
    ($($visit:ident: $kind:ident,)*) => {
        $(fn $visit(&mut self, item: &'ast syn::$kind) {
            self.within("in a constant", |finder| visit::$visit(finder, item));
        })*
    };
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, |finder| {
            visit::visit_item_fn(finder, item)
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, |finder| {
            visit::visit_impl_item_fn(finder, item)
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block, |finder| {
                visit::visit_trait_item_fn(finder, item)
            });
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let mutants = self.take(binary.op.span(), Genre::Operator);
        if binds(&binary.left) || binds(&binary.right) {
            for (number, _) in mutants {
                let reason = "unviable\ta condition that binds names has no other operator";
                self.reasons.insert(number, reason.to_owned());
            }
        } else {
            let [left, right] = [&binary.left, &binary.right].map(|side| side.span().byte_range());
            let alternative = |(number, operator): (usize, String)| {
                let (left, right) = (self.text(left.clone()), self.text(right.clone()));
                (number, format!("({left}) {operator} ({right})"))
            };
            let alternatives = mutants.into_iter().map(alternative).collect();
            self.replace(binary.span(), alternatives);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if !matches!(unary.op, UnOp::Deref(_)) {
            let operand = unary.expr.span().byte_range();
            let alternative =
                |(number, _)| (number, format!("({})", &self.source[operand.clone()]));
            let mutants = self.take(unary.op.span(), Genre::Operator);
            let alternatives = mutants.into_iter().map(alternative).collect();
            self.replace(unary.span(), alternatives);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        for (number, _) in self.take(arm.pat.span(), Genre::Arm) {
            let text = format!("!crate::mutants::is({number})");
            match &arm.guard {
                Some((_, guard)) => {
                    // Around the alternatives of the guard itself.
                    let range = guard.span().byte_range();
                    let length = range.len() as isize + 1;
                    self.insert(range.start, (true, -length), format!("{text} && ("), None);
                    self.insert(range.end, (false, length), ")".to_owned(), None);
                }
                None => {
                    let end = arm.pat.span().byte_range().end;
                    self.insert(
                        end,
                        (false, isize::MAX),
                        format!(" if {text}"),
                        Some(number),
                    );
                }
            }
        }
        if let Some((_, guard)) = &arm.guard {
            let mutants = self.take(guard.span(), Genre::Guard);
            self.replace(guard.span(), mutants);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, value: &'ast syn::ExprStruct) {
        let range = value.span().byte_range();
        let mut alternatives = Vec::new();
        for pair in value.fields.pairs() {
            let field = pair.value().span();
            let (start, mut end) = (field.byte_range().start, field.byte_range().end);
            if let Some(comma) = pair.punct() {
                end = comma.span.byte_range().end;
            }
            for (number, _) in self.take(field, Genre::Field) {
                let (before, after) = (self.text(range.start..start), self.text(end..range.end));
                alternatives.push((number, format!("{before}{after}")));
            }
        }
        self.replace(value.span(), alternatives);
        visit::visit_expr_struct(self, value);
    }

    visits_constants! {
        visit_item_const: ItemConst,
        visit_impl_item_const: ImplItemConst,
        visit_trait_item_const: TraitItemConst,
        visit_item_static: ItemStatic,
        visit_expr_const: ExprConst,
        visit_generic_argument: GenericArgument,
        visit_type_array: TypeArray,
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.within("in a constant", |finder| finder.visit_expr(&repeat.len));
    }
}
