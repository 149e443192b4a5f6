//! One pass over the bytes of a text that finds nothing itself, but says what is worth looking for. Most of what is
//! recorded holds nothing, so this is what redaction costs. It may say yes in vain, never no.
//!
//! A few bytes are looked at together, without a branch, so that the compiler has many of them compared by one
//! instruction; only where a group of them stands out is it looked at byte by byte.

use super::triggers;

/// How many places are looked at together.
const BLOCK: usize = 64;
/// No more than these are left in the end.
const REST: usize = (BLOCK + 2).next_multiple_of(HALF);
/// How far a look at one place reaches.
const REACH: usize = 16;
/// What a number or an address takes up, in any case: all that tells it stands in two halves of blocks, side by side.
const HALF: usize = 32;
/// What the compiler looks at with one instruction.
const LANES: usize = 16;

/// What stood out: which detectors of the bundled pack that go by digits and signs may find something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance(pub(super) u16);

/// What was looked at already.
#[derive(Default)]
struct Done {
    /// Up to where byte by byte, for addresses and for numbers.
    addresses: usize,
    numbers: usize,
    /// What the half before had of what is counted.
    before: Counts,
    /// The last block had signs in it: then the next one most likely has some too, and is not asked.
    signs: bool,
}

impl Glance {
    /// Looks at a text.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut glance = Self::default();
        let mut done = Done::default();
        let mut at = 0;
        while let Some(block) = bytes.get(at..at + BLOCK + 2) {
            glance.look(bytes, at, block, &mut done);
            at += BLOCK;
        }
        // The rest, with zeros behind it.
        let mut block = [0; REST + 2];
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty());
        if let Some((rest, front)) = rest.and_then(|rest| Some((rest, block.get_mut(..rest.len())?))) {
            front.copy_from_slice(rest);
            let len = rest.len().next_multiple_of(HALF);
            glance.look(bytes, at, block.get(..len + 2).unwrap_or(&block), &mut done);
        }
        glance
    }

    /// Looks at the places of a block, which stands in `bytes` at `at`, and two bytes behind them.
    #[inline]
    fn look(&mut self, bytes: &[u8], at: usize, block: &[u8], done: &mut Done) {
        let ([first @ .., _, _], [_, next @ .., _], [_, _, third @ ..]) = (block, block, block) else {
            return;
        };
        if !done.signs && !has_sign(first) {
            done.before = Counts::default();
            return;
        }
        let marks = Marks::of(first, next, &mut done.before);
        done.signs = marks.signs;
        let until = at + first.len();
        if marks.addresses {
            done.addresses = triggers::addresses(bytes, at, until, done.addresses, &mut self.0);
        }
        // What tells a number may stand in the next block only.
        let from = at.saturating_sub(HALF);
        if marks.many_digits || (marks.numbers && has_mark(first, next, third)) {
            let mut kinds = [0; HALF + BLOCK + REACH];
            sort(bytes.get(from..).unwrap_or_default(), &mut kinds);
            if has_number(&kinds) {
                done.numbers = triggers::numbers(bytes, from, until, done.numbers, &mut self.0);
            }
        }
    }
}

// Below there are no branches, and lengths are unknown when compiled or those of registers: then the compiler looks at
// many places at once. What is compared has a sign, which takes an instruction less.

/// All bits when it is.
fn mask(is: bool) -> u8 {
    if is { u8::MAX } else { 0 }
}

/// Whether a byte is one of a range of ASCII characters.
fn within(byte: u8, first: u8, last: u8) -> u8 {
    const MOST: u8 = i8::MAX.cast_unsigned();
    mask(byte.wrapping_add(MOST - last).cast_signed() >= (MOST - (last - first)).cast_signed())
}

fn equal(byte: u8, other: u8) -> u8 {
    mask(byte == other)
}

fn digit(byte: u8) -> u8 {
    within(byte, b'0', b'9')
}

/// One of the marks that numbers are told by.
fn mark(byte: u8) -> u8 {
    within(byte, b'+', b'.') | within(byte, b'A', b'Z')
}

/// Whether a digit is there, or a sign that something begins with.
#[inline(never)]
fn has_sign(bytes: &[u8]) -> bool {
    let is = |byte: u8| within(byte, b'0', b':') | equal(byte, b'@') | equal(byte, b'+');
    bytes.iter().fold(0, |any, byte| any | is(*byte) & 1) != 0
}

/// How many digits and colons half of a block has.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    digits: u32,
    colons: u32,
}

/// What a close look at a block says.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// There are digits or other signs.
    signs: bool,
    /// There may be an IPv6 address.
    addresses: bool,
    /// One of the marks of numbers stands in front of a digit, or there is the sign of e-mail.
    numbers: bool,
    /// There are as many digits as a card has.
    many_digits: bool,
}

impl Marks {
    /// `next`: what stands behind each byte. `before`: what the half before had, and the last one has.
    #[inline(never)]
    fn of(first: &[u8], next: &[u8], before: &mut Counts) -> Self {
        // Both are counted in one sum.
        const COLON: u8 = 64;
        // One of the digits of a card may be the first of a block, which is counted with what was not looked at.
        const DIGITS: u32 = 12;
        let mut marks = Self::default();
        let mut all = [0; LANES];
        for (first, next) in first.as_chunks::<HALF>().0.iter().zip(next.as_chunks::<HALF>().0) {
            let mut counts = [0; LANES];
            let parts = first.as_chunks::<LANES>().0.iter().zip(next.as_chunks::<LANES>().0);
            for (first, next) in parts {
                let lanes = all.iter_mut().zip(&mut counts).zip(first.iter().zip(next));
                for ((all, count), (first, next)) in lanes {
                    let colon = equal(*first, b':');
                    let digit = digit(*next);
                    *all |= (mark(*first) & digit | equal(*first, b'@')) & 1;
                    *all |= colon & equal(*next, b':') & 2;
                    *count += (colon & COLON) + (digit & 1);
                }
            }
            let sum: u32 = counts.iter().map(|count| u32::from(*count)).sum();
            let now = Counts { digits: sum % u32::from(COLON), colons: sum / u32::from(COLON) };
            marks.signs = sum > 0;
            marks.many_digits |= before.digits + now.digits >= DIGITS;
            marks.addresses |= before.colons + now.colons >= triggers::COLONS;
            *before = now;
        }
        let all = all.iter().fold(0, |all, lane| all | lane);
        marks.numbers = all & 1 > 0;
        marks.addresses |= all & 2 > 0;
        marks
    }
}

/// Whether one of the marks of numbers stands in front of a digit that is not the last one, or the sign of e-mail. The
/// revision of JSON-RPC, `"2.0"`, is none. `next` and `third`: what stands behind each byte.
#[inline(never)]
fn has_mark(first: &[u8], next: &[u8], third: &[u8]) -> bool {
    let is =
        |first: u8, next: u8, third: u8| mark(first) & digit(next) & !equal(third, b'"') | equal(first, b'@');
    let places = first.iter().zip(next).zip(third);
    places.fold(0, |any, ((first, next), third)| any | is(*first, *next, *third) & 1) != 0
}

const DIGIT: u8 = 1;
/// A digit, or what may stand between the groups of a number.
const GROUPED: u8 = 1 << 1;
const DOT: u8 = 1 << 2;
const DASH: u8 = 1 << 3;
const UPPER: u8 = 1 << 4;
const PLUS: u8 = 1 << 5;
const AT: u8 = 1 << 6;

/// Says for each byte what it is.
#[inline(never)]
fn sort(bytes: &[u8], kinds: &mut [u8]) {
    for (kind, byte) in kinds.iter_mut().zip(bytes) {
        *kind = (digit(*byte) & (DIGIT | GROUPED))
            | (equal(*byte, b' ') & GROUPED)
            | (equal(*byte, b'-') & (DASH | GROUPED))
            | (equal(*byte, b'.') & DOT)
            | (within(*byte, b'A', b'Z') & UPPER)
            | (equal(*byte, b'+') & PLUS)
            | (equal(*byte, b'@') & AT);
    }
}

/// Whether any other detector that goes by digits and signs may find something.
#[inline(never)]
fn has_number(kinds: &[u8]) -> bool {
    let is = |[a, b, c, d, e, f, g, _, i, j, _, _, m]: &[u8; REACH - 3]| {
        // The bits go to the lowest place, and then what all have stays.
        // Thirteen digits of a card, perhaps in groups.
        let card = a & ((b & d & g & j & m) / GROUPED);
        // `1.2.` of an IPv4 address.
        let ipv4 = a & c & ((b & (d | e | f)) / DOT);
        // `3-45-6789` of a number of the social security.
        let ssn = a & c & d & f & i & ((b & e) / DASH);
        // `DE12` of an IBAN.
        let iban = c & d & ((a & b) / UPPER);
        let phone = b & e & i & (a / PLUS);
        ((card | ipv4 | ssn | iban | phone) & DIGIT) | (a & AT)
    };
    kinds.array_windows().fold(0, |any, place| any | is(place)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What looking at every byte says.
    fn thorough(bytes: &[u8]) -> u16 {
        let mut bits = 0;
        triggers::addresses(bytes, 0, bytes.len(), 0, &mut bits);
        triggers::numbers(bytes, 0, bytes.len(), 0, &mut bits);
        bits
    }

    #[test]
    fn whatever_stands_anywhere_is_seen() {
        for (found, kinds) in [
            ("za@mail.example", 1),
            ("+14155550123", 1),
            ("8.8.4.4", 1),
            ("2001:db8:1:2:3:4:5:6", 1),
            ("2001:0db8:0001:0002:0003:0004:0005:0006", 1),
            ("fe80::1", 1),
            ("::1", 1),
            ("2001:db8:1:2:3:4:255.1.1.1", 2),
            ("abcd:beef:1::", 1),
            ("123-45-6789", 1),
            ("DE89370400440532013000", 1),
            ("4012888888881881", 1),
            ("4012 8888 8888 1881", 1),
            ("4012-8888-8888-1881", 1),
            ("\"2.0\"", 0),
        ] {
            let found = found.as_bytes();
            assert_eq!(thorough(found).count_ones(), kinds, "{}", found.escape_ascii());
            for at in 0..200 {
                for front in ["x", " ", "12:30 ", "1.5, "] {
                    let mut bytes = front.repeat(at).into_bytes();
                    bytes.truncate(at);
                    bytes.push(b' ');
                    bytes.extend_from_slice(found);
                    for behind in [0, 1, 40, 100] {
                        let mut bytes = bytes.clone();
                        bytes.resize(bytes.len() + behind, b'.');
                        let expected = thorough(&bytes);
                        let Glance(seen) = Glance::of(&bytes);
                        assert_eq!(seen & expected, expected, "{at}: {}", bytes.escape_ascii());
                    }
                }
            }
        }
    }
}
