//! Detects texts that make the parser backtrack exponentially. Where parsing fails within one of these
//! constructs, the parser goes back and takes the same tokens for something else, so that each nesting level
//! doubles its time: a task of 50 bytes would occupy a drive for minutes.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{QueryError, at_most, refuse};

/// Upper limit of parentheses in each other that have keywords such as CAST and NOT: see [`check`].
const TRIALS_MAX: usize = 6;
/// Upper limit of the parts of a name: `table.column` has two.
const NAME_PARTS_MAX: usize = 4;

/// For the whole text and each open parenthesis or CASE, whether it contains a keyword that the parser may
/// take for a name instead.
struct Levels(Vec<bool>);

impl Levels {
    fn open(&mut self, has_trial: bool) -> Result<(), QueryError> {
        self.0.push(has_trial);
        let trials = self.0.iter().filter(|has_trial| **has_trial).count();
        at_most("levels of NOT, CASE and functions", trials, TRIALS_MAX)
    }

    fn mark(&mut self, is_trial: bool) {
        if let Some(has_trial) = self.0.last_mut() {
            *has_trial |= is_trial;
        }
    }

    fn close(&mut self) {
        if self.0.len() > 1 {
            self.0.pop();
        }
    }
}

/// Refuses names of many parts, deep levels, and what tables do not have.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), QueryError> {
    let (mut parts, mut signs, mut intervals, mut levels) = (1, 0, 0, Levels(vec![false]));
    for (index, token) in tokens.iter().enumerate() {
        let back = |count: usize| index.checked_sub(count).map(|index| &tokens[index].token);
        let before = back(1);
        let after = tokens.get(index + 1).map(|token| &token.token);
        match &token.token {
            Token::Period => {
                let is_name = matches!(before, Some(Token::Word(_)))
                    && matches!(after, Some(Token::Word(word)) if !OPERATORS.contains(&word.keyword) || word.quote_style.is_some())
                    && tokens.get(index + 2).is_none_or(|token| token.token != Token::LParen)
                    || after == Some(&Token::Mul);
                if !is_name {
                    return Err(QueryError::Syntax("`.` must be between names".to_owned()));
                }
                parts += 1;
                at_most("parts of a name", parts, NAME_PARTS_MAX)?;
            }
            Token::LParen => {
                levels.mark(is_trial(before, back(2)));
                levels.open(false)?;
            }
            Token::Word(word) if word.keyword == Keyword::CASE => levels.open(true)?,
            Token::Word(word) => {
                intervals += usize::from(word.keyword == Keyword::INTERVAL);
                at_most("intervals", intervals, TRIALS_MAX)?;
                levels.mark(OPERATORS.contains(&word.keyword));
                if word.keyword == Keyword::END {
                    levels.close();
                }
            }
            Token::RParen => levels.close(),
            // Of the keyword as a name, or of what follows it.
            Token::Minus | Token::Plus => {
                let is_operator =
                    matches!(before, Some(Token::Word(word)) if OPERATORS.contains(&word.keyword));
                signs += usize::from(is_operator || is_not(back(2)) && is_trial(before, back(2)));
                at_most("signs behind NOT and other keywords", signs, TRIALS_MAX)?;
            }
            Token::LBracket => return Err(refuse("array", "tables have no lists")),
            Token::LBrace => return Err(refuse("struct", "tables have no structures")),
            Token::Arrow | Token::LongArrow => return Err(refuse("operator ->", "tables have no JSON")),
            Token::Tilde => return Err(refuse("operator ~", "tasks have no operations on bits")),
            _ => {}
        }
        if before != Some(&Token::Period) && token.token != Token::Period {
            parts = 1;
        }
    }
    Ok(())
}

fn is_not(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(word)) if word.keyword == Keyword::NOT)
}

/// Whether the parser may take a keyword for a name, given the token before it.
fn is_trial(keyword: Option<&Token>, before: Option<&Token>) -> bool {
    let Some(Token::Word(word)) = keyword else { return false };
    !INFIX.contains(&word.keyword) && (is_not(before) || !AFTER_NOT.contains(&word.keyword))
}

/// Keywords between operands, which are taken for names only behind a NOT.
const AFTER_NOT: [Keyword; 3] = [Keyword::IN, Keyword::BETWEEN, Keyword::LIKE];

/// Keywords that begin an expression, and so are not part of a name unless they are quoted.
const OPERATORS: [Keyword; 6] =
    [Keyword::CASE, Keyword::CAST, Keyword::EXISTS, Keyword::INTERVAL, Keyword::NOT, Keyword::TRY_CAST];

/// Keywords before a parenthesis or a sign that are no name.
const INFIX: [Keyword; 11] = [
    Keyword::NoKeyword,
    Keyword::AND,
    Keyword::OR,
    Keyword::WHERE,
    Keyword::WHEN,
    Keyword::THEN,
    Keyword::ELSE,
    Keyword::ON,
    Keyword::BY,
    Keyword::SELECT,
    Keyword::HAVING,
];
