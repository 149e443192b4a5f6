//! Repeated measurements and the table they are printed in.

use std::time::Duration;

/// The same thing measured several times.
#[derive(Clone, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// What was measured last.
    pub(crate) fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// How many times that of another: of what was measured in turns, the median of the rounds' ratios, since the machine
    /// may do other things in some of them.
    fn ratio(&self, base: &Self) -> f64 {
        if self.0.len() != base.0.len() {
            return self.median() / base.median();
        }
        Self(self.0.iter().zip(&base.0).map(|(own, base)| own / base).collect()).median()
    }

    fn range(&self) -> (f64, f64) {
        let fold = |best: fn(f64, f64) -> f64| self.0.iter().copied().fold(f64::NAN, best);
        (fold(f64::min), fold(f64::max))
    }
}

/// Prints one row per figure as soon as it is known: what, median, min-max, and the ratio to another sample.
#[derive(Default)]
pub(crate) struct Table {
    rows: usize,
}

impl Table {
    pub(crate) fn part(&mut self, title: &str) {
        if self.rows == 0 {
            println!("{:<62} {:>10} {:>17}  ratio", "", "median", "min-max");
        }
        println!("\n{title}");
    }

    /// A row; `unit` is written behind the median, `than` names what the ratio is to.
    pub(crate) fn row(&mut self, what: &str, unit: &str, sample: &Sample, than: Option<(&str, &Sample)>) {
        self.rows += 1;
        let (least, most) = sample.range();
        let range = format!("{}-{}", number(least), number(most));
        let median = format!("{} {unit}", number(sample.median()));
        let ratio =
            than.map_or(String::new(), |(name, base)| format!("{}x {name}", number(sample.ratio(base))));
        println!("  {what:<60} {median:>10} {range:>17}  {ratio}");
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.rows += 1;
        println!("  {text}");
    }
}

/// Three significant digits.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn float(value: usize) -> f64 {
    value as f64
}
