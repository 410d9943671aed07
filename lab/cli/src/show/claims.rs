//! Claims with their verdicts, as text.
//!
//! Experiments and benchmarks show what was claimed, and the numbers behind each verdict, in the same words.
//!
//! # Invariants
//! A verdict is a word, never a colour alone.

use everybuddy_measure::Error;
use everybuddy_measure::claim::{Claim, Verdict};

use everybuddy_page::document::{Block, Section};

use super::document::judged;

/// Returns the claims of a benchmark under a headline, if any was judged.
pub fn listed(verdicts: &[(Claim, Verdict)]) -> Vec<Block> {
    if verdicts.is_empty() {
        return Vec::new();
    }
    let section = Section {
        name: "claims".to_string(),
        ..Section::default()
    };
    vec![
        Block::Section(section).on_page(),
        Block::text("Claims (docs/metrics.md says how they are judged)"),
        Block::Claims(verdicts.iter().map(judged).collect()),
        Block::Space,
    ]
}

/// Gives the error of a run in which a claim failed that was not known to; each claim comes with what it belongs to.
///
/// # Errors
/// [`Error::Failed`], with the claims.
pub fn none_failed<'v>(
    judged: impl Iterator<Item = (&'v str, &'v Claim, &'v Verdict)>,
) -> Result<(), Error> {
    let failures: Vec<String> = judged
        .filter(|(_, claim, verdict)| verdict.is_failure(claim))
        .map(|(place, claim, _)| match place {
            "" => claim.text.clone(),
            place => format!("{place}: {}", claim.text),
        })
        .collect();
    let claims = match failures.len() {
        0 => return Ok(()),
        1 => "1 claim".to_string(),
        many => format!("{many} claims"),
    };
    Err(Error::Failed(format!(
        "{claims} failed: {}",
        failures.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::document::text;
    use crate::show::output::Style;
    use everybuddy_measure::claim::{Case, State};

    fn verdict(state: State, more: &str, beyond: &[&str]) -> (Claim, Verdict) {
        let text = format!(
            "kind = 'bound'\ntext = 'It is fast.'\nmetric = 'latency'\nstatistic = 'p50'\nsystems = []\n\
             at_most = 1\n{more}"
        );
        let cases = vec![Case {
            state,
            text: "hot: bs 2.00, at most 1".to_string(),
            off: 0.0,
        }];
        let beyond = beyond.iter().map(ToString::to_string).collect();
        let verdict = Verdict {
            state,
            cases,
            beyond,
        };
        (toml::from_str(&text).unwrap(), verdict)
    }

    #[test]
    fn verdicts_are_words_and_only_unknown_failures_fail() {
        let known = "differs = 'it is slow'\nstill_at_most = 3";
        let far = ["hot: bs 4.00, at most 3"];
        for (state, more, beyond, word, fails) in [
            (State::Pass, "", &far[..0], "pass ", false),
            (State::Inconclusive, "", &[], "inconclusive ", false),
            (State::Fail, "", &[], "FAIL ", true),
            (State::Fail, known, &[], "known deviation ", false),
            (State::Fail, known, &far, "FAIL ", true),
        ] {
            let all = [verdict(state, more, beyond)];
            let claims = Block::Claims(all.iter().map(super::judged).collect());
            let text = text(&[claims], &Style::PLAIN);
            assert!(text.starts_with(word), "{text}");
            assert!(text.contains("hot: bs 2.00"), "{text}");
            assert_eq!(text.contains("why: it is slow"), !more.is_empty());
            assert_eq!(text.contains("recorded: hot: bs 4.00"), !beyond.is_empty());
            let result = none_failed(all.iter().map(|(claim, verdict)| ("x", claim, verdict)));
            assert_eq!(result.is_err(), fails);
        }
        assert!(listed(&[]).is_empty());
    }
}
