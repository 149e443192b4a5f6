//! One pass over the bytes of a text that finds nothing itself, but says what is worth looking for. Most of what is
//! recorded holds nothing, so this is what redaction costs. It may say yes in vain, never no.
//!
//! A few bytes are looked at together, without a branch, so that the compiler has many of them compared by one
//! instruction; only where a group of them stands out is it looked at byte by byte.

use super::triggers;

/// How many places are looked at together.
const BLOCK: usize = 64;
/// No more than these are left in the end.
const REST: usize = (BLOCK + AHEAD).next_multiple_of(LANES);
/// How far a look at one place reaches.
const REACH: usize = 16;
/// How far the marks of what begins at one place may be.
const AHEAD: usize = LANES + REACH;
/// What the compiler looks at in one turn: blocks are a multiple of it.
const LANES: usize = 32;

/// What stood out: which detectors of the bundled pack that go by digits and signs may find something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance(pub(super) u16);

/// Up to where the bytes were looked at one by one.
#[derive(Default)]
struct Done {
    addresses: usize,
    numbers: usize,
}

impl Glance {
    /// Looks at a text.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut glance = Self::default();
        let mut done = Done::default();
        let mut at = 0;
        while let Some(block) = bytes.get(at..at + BLOCK + AHEAD) {
            glance.look(bytes, at, block, &mut done);
            at += BLOCK;
        }
        // The rest, with zeros behind it.
        let mut block = [0; REST + AHEAD];
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty());
        if let Some((rest, front)) = rest.and_then(|rest| Some((rest, block.get_mut(..rest.len())?))) {
            front.copy_from_slice(rest);
            let len = rest.len().next_multiple_of(LANES);
            glance.look(bytes, at, block.get(..len + AHEAD).unwrap_or(&block), &mut done);
        }
        glance
    }

    /// Looks at the places of a block, which stands in `bytes` at `at`. `done`: up to where which detectors have looked.
    #[inline]
    fn look(&mut self, bytes: &[u8], at: usize, block: &[u8], done: &mut Done) {
        if !has_sign(block) {
            return;
        }
        let until = at + block.len().saturating_sub(AHEAD);
        if has_address(block) {
            done.addresses = triggers::addresses(bytes, at, until, done.addresses, &mut self.0);
        }
        if !has_mark(block) {
            return;
        }
        let mut kinds = [0; REST + REACH];
        let kinds = kinds.get_mut(..block.len() - LANES).unwrap_or_default();
        sort(block, kinds);
        if has_number(kinds) {
            done.numbers = triggers::numbers(bytes, at, until, done.numbers, &mut self.0);
        }
    }
}

// Below there are no branches and lengths are unknown when compiled: then the compiler looks at many places at once.

fn any<const N: usize>(block: &[u8], last: usize, is: impl Fn(&[u8; N]) -> u8) -> bool {
    places::<N>(block, last).array_windows().fold(0, |any, place| any | is(place)) != 0
}

/// What `N` bytes are looked at together of, for as many places as there are without the last ones. That is a multiple of
/// [`LANES`]: the compiler takes the rest one by one.
fn places<const N: usize>(block: &[u8], last: usize) -> &[u8] {
    block.get(..block.len().saturating_sub(last + 1) + N).unwrap_or_default()
}

fn equal(byte: u8, other: u8) -> u8 {
    u8::from(byte == other)
}

fn digit(byte: u8) -> u8 {
    u8::from(byte.wrapping_sub(b'0') < 10)
}

/// Whether a digit is there, or a sign that something begins with.
#[inline(never)]
fn has_sign(block: &[u8]) -> bool {
    any(block, AHEAD, |[byte]| {
        u8::from(byte.wrapping_sub(b'0') <= b':' - b'0') | equal(*byte, b'@') | equal(*byte, b'+')
    })
}

/// Whether two colons are there with four characters between them at most, as in an IPv6 address.
#[inline(never)]
fn has_address(block: &[u8]) -> bool {
    any(block, AHEAD, |[colon, next, second, third, fourth, fifth]| {
        let later = equal(*next, b':') | equal(*second, b':') | equal(*third, b':');
        equal(*colon, b':') & (later | equal(*fourth, b':') | equal(*fifth, b':'))
    })
}

/// Whether there is one of the marks that numbers are told by (`+`, `-`, `.` or a capital) in front of a digit that is
/// not the last one, or as many digits as a card has, or a sign of e-mail. The revision of JSON-RPC, `"2.0"`, is none.
#[inline(never)]
fn has_mark(block: &[u8]) -> bool {
    let marked = any(block, REACH, |[byte, next, third]| {
        let mark = u8::from(byte.wrapping_sub(b'+') < 4) | u8::from(byte.wrapping_sub(b'A') < 26);
        (digit(*next) & mark & u8::from(*third != b'"')) | equal(*byte, b'@')
    });
    // There are far fewer than 256 places.
    marked || places::<1>(block, REACH).iter().fold(0_u8, |sum, byte| sum.wrapping_add(digit(*byte))) > 12
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
fn sort(block: &[u8], kinds: &mut [u8]) {
    for (kind, byte) in kinds.iter_mut().zip(block) {
        let is = [
            (digit(*byte), DIGIT | GROUPED),
            (equal(*byte, b' '), GROUPED),
            (equal(*byte, b'-'), DASH | GROUPED),
            (equal(*byte, b'.'), DOT),
            (u8::from(byte.wrapping_sub(b'A') < 26), UPPER),
            (equal(*byte, b'+'), PLUS),
            (equal(*byte, b'@'), AT),
        ];
        *kind = is.iter().fold(0, |kinds, (is, kind)| kinds | (is * kind));
    }
}

/// Whether any other detector that goes by digits and signs may find something.
#[inline(never)]
fn has_number(kinds: &[u8]) -> bool {
    any(kinds, REACH, |[a, b, c, d, e, f, g, _, i, j, _, _, m]| {
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
    })
}
