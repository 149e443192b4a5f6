//! Finds that lie over or beside each other: one placeholder for all of it, since two that touch cannot be told apart.

use super::document::{Found, Hit};
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// Leaves to echoes what was found inside them: the whole of each is one value. `structure`, in order, are the texts
/// that were opened; those inside an echo go with it. Whether an echo is left that begins or ends amid the fields of a
/// form or a URL: what would be written there for it and for them could not be read as fields again.
pub(super) fn yield_to(echoes: &[Span], found: &mut Found, structure: &mut Vec<Span>) -> bool {
    if structure.is_empty() && found.hits.is_empty() {
        return false;
    }
    let mut crosses = false;
    found.hits.sort_by_key(|hit| hit.span);
    found.removals.sort_by_key(|removal| removal.span);
    for echo in echoes {
        let inside = |span: Span| echo.start <= span.start && span.end <= echo.end;
        let opened = reach(structure, |span| *span, *echo);
        let hits = reach(&found.hits, |hit| hit.span, *echo);
        let removals = reach(&found.removals, |removal| removal.span, *echo);
        let whole = structure.get(opened.clone()).is_some_and(|spans| spans.iter().all(|span| inside(*span)))
            && found.hits.get(hits.clone()).is_some_and(|hits| hits.iter().all(|hit| inside(hit.span)))
            && found
                .removals
                .get(removals.clone())
                .is_some_and(|cuts| cuts.iter().all(|cut| inside(cut.span)));
        // What stands under its own name is found there already.
        let same = found.hits.get(hits.start).is_some_and(|hit| hit.span == *echo);
        if whole && !same {
            structure.drain(opened);
            found.hits.drain(hits);
            found.removals.drain(removals);
        } else if opened.is_empty() {
            let holds = |span: Span| span.start <= echo.start && echo.end <= span.end;
            let mut over = found.hits.get(hits).into_iter().flatten();
            crosses |= over.clone().next().is_some() && !over.any(|hit| holds(hit.span));
        }
    }
    crosses
}

/// Which of a list, in order and without overlaps, overlap a span.
fn reach<T>(list: &[T], of: impl Fn(&T) -> Span, span: Span) -> std::ops::Range<usize> {
    let start = list.partition_point(|item| of(item).end <= span.start);
    start..list.partition_point(|item| of(item).start < span.end).max(start)
}

/// Makes one of finds in a text that touch, in their order.
pub(super) fn join(rules: &Rules, text: &str, mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| hit.span);
    let numbered = |hit: &Hit| !hit.stays && rules.stand_in(hit.rule, &hit.value).is_none();
    let mut joined: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match joined.last_mut() {
            Some(last) if last.span.end == hit.span.start && numbered(last) && numbered(&hit) => {
                last.span = Span::new(last.span.start, hit.span.end);
                last.span.of(text).clone_into(&mut last.value);
            }
            _ => joined.push(hit),
        }
    }
    joined
}
