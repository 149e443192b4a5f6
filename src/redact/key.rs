//! Member names: how they are normalised, the globs that match them, and which of them only look like secrets.

/// A name in the two forms that globs are compared with: lower case, with runs of `-`, `_` and spaces as one `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// `accessToken` is `access_token`.
    pub(super) split: String,
    /// `accessToken` is `accesstoken`.
    pub(super) joined: String,
}

impl Name {
    pub(super) fn of(raw: &str) -> Self {
        let mut split = String::with_capacity(raw.len() + 4);
        let mut joined = String::with_capacity(raw.len());
        let mut before = ' ';
        let mut chars = raw.chars().peekable();
        while let Some(char) = chars.next() {
            if matches!(char, '-' | '_' | ' ') {
                if !split.ends_with('_') {
                    split.push('_');
                }
                if !joined.ends_with('_') {
                    joined.push('_');
                }
            } else {
                let after_word = before.is_lowercase() || before.is_ascii_digit();
                let after_acronym =
                    before.is_uppercase() && chars.peek().is_some_and(|next| next.is_lowercase());
                if char.is_uppercase() && (after_word || after_acronym) {
                    split.push('_');
                }
                push_lower(&mut split, char);
                push_lower(&mut joined, char);
            }
            before = char;
        }
        Self { split, joined }
    }

    fn words(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.split.split('_').filter(|word| !word.is_empty())
    }

    /// The name without the words that only look like names of secrets, where it has some: `secretary_token` is
    /// `token`, and `secretary` is nothing.
    pub(super) fn without_words(&self) -> Option<Self> {
        let is_word = |word: &str| WORDS.binary_search(&word).is_ok();
        let pieces = || self.split.split(|char: char| !char.is_alphanumeric());
        if !pieces().any(is_word) {
            return None;
        }
        let rest: Vec<&str> = pieces().filter(|piece| !is_word(piece)).collect();
        Some(Self { split: rest.join("_"), joined: rest.join("_") })
    }
}

/// Words of the dictionary that the default globs match, and that name no secret.
const WORDS: [&str; 38] = [
    "credentialed",
    "credentialing",
    "credentialism",
    "passwordless",
    "secretarial",
    "secretariat",
    "secretariats",
    "secretaries",
    "secretary",
    "secretaryship",
    "secrete",
    "secreted",
    "secretes",
    "secretin",
    "secreting",
    "secretion",
    "secretions",
    "secretive",
    "secretively",
    "secretiveness",
    "secretory",
    "tokenisation",
    "tokenise",
    "tokenised",
    "tokeniser",
    "tokenisers",
    "tokenises",
    "tokenising",
    "tokenism",
    "tokenization",
    "tokenize",
    "tokenized",
    "tokenizer",
    "tokenizers",
    "tokenizes",
    "tokenizing",
    "tokenless",
    "untokenized",
];

/// Lower case that never turns another letter into an ASCII one (the Kelvin sign stays): the prefilter knows only
/// the cases of ASCII.
fn push_lower(out: &mut String, char: char) {
    if char.is_ascii() {
        out.push(char.to_ascii_lowercase());
    } else if char.to_lowercase().any(|lower| lower.is_ascii()) {
        out.push(char);
    } else {
        out.extend(char.to_lowercase());
    }
}

/// A glob over names: `*` is any run of characters, `?` any one. A separator between two letters is optional, so
/// `private_key` is `private-key`, `privateKey` and `privatekey`.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    /// As normalised.
    pub(super) pattern: String,
    /// The same without separators between letters, where that makes a difference.
    tight: Option<String>,
}

impl Glob {
    pub(super) fn of(raw: &str) -> Self {
        let pattern = Name::of(raw).split;
        let mut tight = String::with_capacity(pattern.len());
        let chars: Vec<char> = pattern.chars().collect();
        for (at, char) in chars.iter().enumerate() {
            let letter = |at: Option<usize>| {
                at.and_then(|at| chars.get(at)).is_some_and(|char| !matches!(char, '*' | '?'))
            };
            if *char != '_' || !letter(at.checked_sub(1)) || !letter(Some(at + 1)) {
                tight.push(*char);
            }
        }
        Self { tight: (tight != pattern).then_some(tight), pattern }
    }

    pub(super) fn matches(&self, name: &Name) -> bool {
        glob_matches(&self.pattern, &name.split)
            || glob_matches(&self.pattern, &name.joined)
            || self.tight.as_ref().is_some_and(|tight| glob_matches(tight, &name.joined))
    }
}

fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut pattern = pattern.chars();
    let mut text = text.chars();
    // Where to go on from when a literal does not fit: after the last star, one character further.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let mut ahead = pattern.clone();
        match ahead.next() {
            Some('*') => {
                pattern = ahead;
                retry = Some((pattern.clone(), text.clone()));
                continue;
            }
            None if text.as_str().is_empty() => return true,
            Some(wanted) => {
                let mut rest = text.clone();
                if rest.next().is_some_and(|char| wanted == '?' || wanted == char) {
                    pattern = ahead;
                    text = rest;
                    continue;
                }
            }
            None => {}
        }
        let Some((after_star, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        pattern = after_star.clone();
        text = from.clone();
    }
}

/// Whether a name says that its value is a count and no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// It does not.
    No,
    /// `tokens`, `promptTokens`: numbers are counts (or a tokenizer's ids), strings are secrets.
    Plural,
    /// `token_count`, `maxTokens`, `tokenUsage`: numbers are counts, however they are written.
    Word,
}

/// Names that the protocol or its users need in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spared {
    /// Nothing of the kind.
    No,
    /// Page tokens and other words with a known harmless meaning: spared, except below a key that is a secret.
    Harmless,
    /// Fields of MCP itself: spared everywhere.
    Protocol,
}

const COUNT_WORDS: [&str; 29] = [
    "age",
    "budget",
    "cost",
    "count",
    "counts",
    "exp",
    "expiration",
    "expires",
    "expiry",
    "len",
    "length",
    "lifetime",
    "limit",
    "limits",
    "max",
    "min",
    "num",
    "per",
    "price",
    "quota",
    "rate",
    "remaining",
    "size",
    "sum",
    "total",
    "totals",
    "ttl",
    "usage",
    "used",
];

const PAGE_ENDINGS: [&str; 5] =
    ["pagetoken", "continuationtoken", "paginationtoken", "pagingtoken", "cursor"];

const PAGE_NAMES: [&str; 9] = [
    "nexttoken",
    "prevtoken",
    "previoustoken",
    "synctoken",
    "deltatoken",
    "skiptoken",
    "resumetoken",
    "resumptiontoken",
    "tokentype",
];

const PROTOCOL_NAMES: [&str; 5] = ["progresstoken", "maxtokens", "requeststate", "cursor", "nextcursor"];

/// Whether a name is one of the protocol's own, in any of its spellings.
pub(super) fn is_protocol(raw: &str) -> bool {
    let letters = || raw.bytes().filter(|byte| !matches!(byte, b'-' | b'_' | b' '));
    PROTOCOL_NAMES.iter().any(|name| letters().map(|byte| byte.to_ascii_lowercase()).eq(name.bytes()))
}

/// What is known about a name that a rule matches.
pub(super) fn nature(raw: &str, name: &Name) -> (Count, Spared) {
    let tight: String = name.joined.chars().filter(|char| *char != '_').collect();
    let last_two: String = {
        let mut words = name.words().rev();
        let last = words.next().unwrap_or("");
        [words.next().unwrap_or(""), last].concat()
    };
    let spared = if is_protocol(raw) {
        Spared::Protocol
    } else if PAGE_ENDINGS.iter().any(|ending| tight.ends_with(ending))
        || PAGE_NAMES.contains(&tight.as_str())
        || PAGE_NAMES.contains(&last_two.as_str())
    {
        Spared::Harmless
    } else {
        Spared::No
    };
    let count = if name.words().any(|word| COUNT_WORDS.binary_search(&word).is_ok()) {
        Count::Word
    } else if tight.ends_with("tokens") || name.words().any(|word| word == "tokens") {
        Count::Plural
    } else {
        Count::No
    };
    (count, spared)
}

/// Whether a text is a count as people write it: `512`, `1,024`, `0.5`.
pub(super) fn is_count(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.starts_with(|char: char| char.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalised() {
        for (raw, split, joined) in [
            ("accessToken", "access_token", "accesstoken"),
            ("X-API-Key", "x_api_key", "x_api_key"),
            ("APIKey", "api_key", "apikey"),
            ("oauth2Token", "oauth2_token", "oauth2token"),
            ("TOKEN", "token", "token"),
            ("a--_b c", "a_b_c", "a_b_c"),
            ("_meta", "_meta", "_meta"),
            ("ПарольÄ", "пароль_ä", "парольä"),
            ("to\u{212a}en", "to_\u{212a}en", "to\u{212a}en"),
        ] {
            assert_eq!(Name::of(raw), Name { split: split.into(), joined: joined.into() }, "{raw}");
        }
    }

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("*token*", "refreshTokens", true),
            ("*token*", "tok", false),
            ("*apikey*", "apiKey", true),
            ("*apikey*", "api_key", false),
            ("*api_key*", "my-Api-Key-2", true),
            ("*private_key*", "privatekey", true),
            ("*private_key*", "PRIVATE KEY", true),
            ("*password*", "passWord", true),
            ("authorization", "Authorization", true),
            ("authorization", "authorizations", false),
            ("api_*", "apiary", false),
            ("api_*", "apiThing", true),
            ("x?z", "XyZ", true),
            ("x?z", "xz", false),
            ("*a*b*c", "xxaxxbxxcxxc", true),
            ("*a*b*c", "xxaxxbxxcxxd", false),
            ("*", "", true),
            ("", "", true),
            ("*пароль*", "МойПароль", true),
        ] {
            assert_eq!(Glob::of(glob).matches(&Name::of(name)), expected, "{glob} {name}");
        }
    }

    #[test]
    fn words_of_the_dictionary_are_no_secrets() {
        assert!(WORDS.is_sorted());
        let rules = super::super::Rules::new(true, &[]).unwrap();
        for (name, expected) in [
            ("secretary", false),
            ("Secretary-General", false),
            ("secretariat", false),
            ("company.secretary.name", false),
            ("tokenizer", false),
            ("tokenizerPath", false),
            ("TokenizerFast", false),
            ("is_tokenized", false),
            ("tokenize", false),
            ("passwordless", false),
            ("passwordlessLogin", false),
            // What has a word of its own besides it is one.
            ("secretary_password", true),
            ("tokenizer_token", true),
            ("tokenizerApiKey", true),
            ("secretarySecret", true),
            ("passwordless_secret", true),
            ("api_tokenizer_key", true),
            // What is no word of the dictionary is none.
            ("secretaryx", true),
            ("mysecretary", true),
            ("clientsecret", true),
            ("mysecretkey", true),
            ("authtoken", true),
            ("accesstoken", true),
            ("SECRET_ARY", true),
            ("tokenizerkey", true),
        ] {
            assert_eq!(rules.facts(name).rule.is_some(), expected, "{name}");
        }
        // A glob of one's own means what it says.
        let own = super::super::Rules::new(true, &["secretary".to_owned()]).unwrap();
        assert!(own.facts("secretary").rule.is_some());
    }

    #[test]
    fn natures() {
        assert!(COUNT_WORDS.is_sorted());
        for (raw, count, spared) in [
            ("token", Count::No, Spared::No),
            ("totalTokens", Count::Word, Spared::No),
            ("token_count", Count::Word, Spared::No),
            ("completion_tokens", Count::Plural, Spared::No),
            ("progressToken", Count::No, Spared::Protocol),
            ("maxTokens", Count::Word, Spared::Protocol),
            ("requestState", Count::No, Spared::Protocol),
            ("page_token", Count::No, Spared::Harmless),
            ("nextPageToken", Count::No, Spared::Harmless),
            ("nextpagetoken", Count::No, Spared::Harmless),
            ("continuation_token", Count::No, Spared::Harmless),
            ("NextToken", Count::No, Spared::Harmless),
            ("nextSyncToken", Count::No, Spared::Harmless),
            ("asyncToken", Count::No, Spared::No),
            ("token_type", Count::No, Spared::Harmless),
        ] {
            assert_eq!(nature(raw, &Name::of(raw)), (count, spared), "{raw}");
        }
    }
}
