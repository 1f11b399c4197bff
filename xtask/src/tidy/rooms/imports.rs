//! Finds the imports of a source file: `use` trees and paths that begin with `crate` or `super`, in code and in the
//! arguments of macros. Works on tokens, so comments and strings do not count. Items under `#[cfg(test)]` are skipped.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::FromStr;
use std::vec::IntoIter;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path of the crate that a file refers to.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) line: usize,
    /// The path from the crate's root; empty for the root itself.
    pub(super) path: Vec<String>,
}

/// The imports of a file and its test modules.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) imports: BTreeSet<Import>,
    /// Paths of modules declared under `#[cfg(test)]`.
    pub(super) test_modules: Vec<Vec<String>>,
}

type Tokens = Peekable<IntoIter<TokenTree>>;

/// Scans the source of `module`, a path from the crate's root.
pub(super) fn scan(text: &str, module: &[String]) -> Result<Scan, String> {
    let tokens = TokenStream::from_str(text).map_err(|error| error.to_string())?;
    let mut scan = Scan::default();
    scan.tokens(tokens, module);
    Ok(scan)
}

impl Scan {
    fn tokens(&mut self, stream: TokenStream, module: &[String]) {
        let mut tokens = peekable(stream);
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    tokens.next_if(|token| is_punct(token, '!'));
                    let Some(TokenTree::Group(attribute)) = tokens.next() else { continue };
                    if compact(attribute.stream()) == "cfg(test)" {
                        self.skip_item(&mut tokens, module);
                    }
                }
                TokenTree::Group(group) => self.tokens(group.stream(), module),
                TokenTree::Ident(word) if word == "use" => self.use_tree(&mut tokens, &[], module),
                TokenTree::Ident(word) if word == "mod" => self.inline_module(&mut tokens, module),
                TokenTree::Ident(word) if word == "crate" || word == "super" => {
                    self.path(&mut tokens, word.to_string(), word.span().start().line, module);
                }
                _ => {}
            }
        }
    }

    /// Scans the body of `mod NAME { ... }` with its own path, so that `super` is resolved correctly.
    fn inline_module(&mut self, tokens: &mut Tokens, module: &[String]) {
        let Some(TokenTree::Ident(name)) = tokens.next() else { return };
        let body = |token: &TokenTree| matches!(token, TokenTree::Group(_));
        if let Some(TokenTree::Group(body)) = tokens.next_if(body) {
            self.tokens(body.stream(), &[module, &[name.to_string()]].concat());
        }
    }

    /// Skips what `#[cfg(test)]` applies to: an item, a statement, a field or an arm.
    fn skip_item(&mut self, tokens: &mut Tokens, module: &[String]) {
        let mut ends_at_brace = true;
        let mut ends_at_comma = true;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "mod" => {
                    ends_at_comma = false;
                    if let Some(TokenTree::Ident(name)) = tokens.next() {
                        self.test_modules.push([module, &[name.to_string()]].concat());
                    }
                }
                TokenTree::Ident(word)
                    if ["fn", "impl", "struct", "enum", "trait"].iter().any(|item| word == item) =>
                {
                    ends_at_comma = false;
                }
                TokenTree::Ident(word)
                    if ["use", "const", "static", "let", "type"].iter().any(|item| word == item) =>
                {
                    (ends_at_brace, ends_at_comma) = (false, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Punct(punct) if punct.as_char() == ',' && ends_at_comma => return,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && ends_at_brace => return,
                _ => {}
            }
        }
    }

    /// Records each leaf of a `use` tree. `prefix` is the path before the enclosing braces.
    fn use_tree(&mut self, tokens: &mut Tokens, prefix: &[String], module: &[String]) {
        let mut path = prefix.to_vec();
        let mut line = 0;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => drop(tokens.next()),
                TokenTree::Ident(word) => {
                    line = word.span().start().line;
                    path.push(word.to_string());
                }
                TokenTree::Group(group) => {
                    self.use_tree(&mut peekable(group.stream()), &path, module);
                    path.clear();
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => break,
                TokenTree::Punct(punct) if punct.as_char() == ',' => {
                    self.record(&path, line, module);
                    path.clear();
                    path.extend_from_slice(prefix);
                    line = 0;
                }
                _ => {}
            }
        }
        // Nothing follows a trailing comma.
        if line > 0 {
            self.record(&path, line, module);
        }
    }

    /// Records a path in code, whose first word has been read.
    fn path(&mut self, tokens: &mut Tokens, first: String, line: usize, module: &[String]) {
        let mut path = vec![first];
        while tokens.next_if(|token| is_punct(token, ':')).is_some() {
            if let Some(TokenTree::Ident(word)) = tokens.next_if(|token| matches!(token, TokenTree::Ident(_)))
            {
                path.push(word.to_string());
            }
        }
        if path.len() > 1 {
            self.record(&path, line, module);
        }
    }

    /// Records a path that starts with `crate` or `super`. Others lead into the module itself or out of the crate.
    fn record(&mut self, path: &[String], line: usize, module: &[String]) {
        let rest = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some("self" | "super") => {
                let from_here = path.strip_prefix(&["self".to_owned()]).unwrap_or(path);
                let levels = from_here.iter().take_while(|word| *word == "super").count();
                if levels == 0 {
                    return;
                }
                let parents = &module[..module.len().saturating_sub(levels)];
                [parents, &from_here[levels..]].concat()
            }
            _ => return,
        };
        self.imports.insert(Import { line, path: rest });
    }
}

fn peekable(stream: TokenStream) -> Tokens {
    stream.into_iter().collect::<Vec<_>>().into_iter().peekable()
}

fn is_punct(token: &TokenTree, expected: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == expected)
}

fn compact(stream: TokenStream) -> String {
    stream.to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::scan;

    /// The imports of a text in `volume::ops::write`, with their lines.
    fn paths(text: &str) -> Vec<String> {
        let scan = scan(text, &["ops".to_owned(), "write".to_owned()]).unwrap();
        scan.imports.into_iter().map(|import| format!("{} {}", import.line, import.path.join("::"))).collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        let text =
            "use std::fs;\nuse crate::{a::B, c::{self, D as E}, f::*,};\npub(crate) use super::read::{X};\n";
        assert_eq!(paths(text), ["2 a::B", "2 c::D", "2 c::self", "2 f", "3 ops::read::X"]);
    }

    #[test]
    fn paths_in_code_and_in_macros_are_found() {
        let text = "fn f(x: crate::a::B) {\n assert!(super::super::c::d(x));\n self::g(\"crate::no\") // crate::no\n}\n";
        assert_eq!(paths(text), ["1 a::B", "2 c::d"]);
    }

    #[test]
    fn super_in_an_inline_module_is_its_parent() {
        assert_eq!(paths("mod inner { use super::super::read; }"), ["1 ops::read"]);
    }

    #[test]
    fn items_for_tests_are_skipped() {
        let text = "#[cfg(test)]\nuse crate::a;\n#[cfg(test)]\nmod tests { use crate::b; }\n#[cfg(test)]\nmod model;\n\
            struct S { #[cfg(test)] x: crate::c::C, y: crate::d::D }\n#[cfg(test)]\nfn f<A, B>() { crate::e::f() }\n\
            #[cfg(not(test))]\nuse crate::g;\n";
        assert_eq!(paths(text), ["7 d::D", "11 g"]);
        let scan = scan(text, &[]).unwrap();
        assert_eq!(scan.test_modules, [["tests"], ["model"]]);
    }

    #[test]
    fn visibility_is_no_import() {
        assert!(paths("pub(crate) fn f() {}\npub(super) struct S;\n").is_empty());
    }
}
