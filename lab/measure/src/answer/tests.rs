//! Tests of the choice and of its sentences.

use std::borrow::Cow;

use everybuddy_metrics::Better;

use super::criteria::{TIME, own_memory, points_of};
use super::*;
use crate::replay::memory::Memory;
use crate::replay::pace::Pace;
use crate::replay::script::Assignment;

mod tables;

/// Creates what systems are judged by, from one line of whole numbers per criterion.
fn criteria(margin: &Margin, values: &[&[f64]]) -> Vec<Criterion> {
    let criterion = |values: &&[f64]| Criterion {
        name: "a number",
        unit: "",
        values: values.to_vec(),
        margin: margin.clone(),
    };
    values.iter().map(criterion).collect()
}

#[test]
fn the_beaten_never_appear_and_the_best_always_do() {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((seed >> 33) % 40) as f64
    };
    let mut shortened = 0;
    for round in 0..300 {
        let lines: Vec<Vec<f64>> = (0..4)
            .map(|_| (0..26).map(|_| random()).collect())
            .collect();
        let lines: Vec<&[f64]> = lines.iter().map(|line| &line[..]).collect();
        let exact = round % 2 == 0;
        let margin = if exact {
            Margin::Points(0.0)
        } else {
            Margin::Points(3.0)
        };
        let criteria = criteria(&margin, &lines);
        let choice = Choice::of(&criteria);
        shortened += usize::from(choice.chosen.len() < choice.front.len());
        assert!(choice.chosen.len() >= LEAST.min(choice.front.len()));
        assert!(choice.chosen.len() <= MOST);
        for own in &choice.chosen {
            let beats = |other: usize| {
                lines.iter().all(|line| line[other] <= line[*own])
                    && lines.iter().any(|line| line[other] < line[*own])
            };
            assert!(choice.front.contains(own));
            assert!(!exact || !(0..26).any(beats), "{own} is beaten: {choice:?}");
        }
        for (line, criterion) in lines.iter().zip(&criteria) {
            let places = criterion.places();
            let is_first = |own: &usize| places[*own] == 1;
            assert!(choice.chosen.iter().any(is_first), "{choice:?}");
            let least = line.iter().copied().fold(f64::INFINITY, f64::min);
            let is_best = |own: &usize| line[*own] == least;
            assert!(!exact || choice.chosen.iter().any(is_best));
        }
    }
    assert!(shortened > 100, "{shortened}");
}

#[test]
fn noise_makes_ties() {
    let of = |margin: &Margin, values: &[&[f64]]| Choice::of(&criteria(margin, values)).chosen;
    // The first is a little slower than the second and much better otherwise: one beats the other.
    let values: &[&[f64]] = &[&[104.0, 100.0], &[1.0, 9.0]];
    assert_eq!(of(&Margin::Share(0.05), values), [0]);
    assert_eq!(of(&Margin::Share(0.0), values), [1, 0]);
    assert_eq!(of(&Margin::Points(4.0), values), [0]);
    assert_eq!(of(&Margin::Points(3.9), values), [1, 0]);
    // Rounds decide, where no round is an exception.
    let in_each = Margin::Rounds(vec![vec![104.0, 52.0], vec![100.0, 50.0]]);
    let in_most = Margin::Rounds(vec![vec![104.0, 52.0], vec![100.0, 53.0]]);
    let mut both = criteria(&Margin::Share(0.05), values);
    both[0].margin = in_each;
    assert_eq!(Choice::of(&both).chosen, [1, 0], "the faster is first");
    both[0].margin = in_most;
    assert_eq!(Choice::of(&both).chosen, [0]);
    // Steps of noise add up to a difference: the first beats the last, and the second beats nothing.
    let steps = criteria(&Margin::Points(1.0), &[&[1.0, 2.0, 3.0]]);
    assert_eq!(steps[0].places(), [1, 1, 3]);
    assert_eq!(Choice::of(&steps).chosen, [0, 1]);
    // A later place is not enough: the last is within noise of the second, which beats the first.
    let values: &[&[f64]] = &[&[1.0, 1.9, 2.5], &[9.0, 1.0, 1.0]];
    assert_eq!(of(&Margin::Points(1.0), values), [1, 2]);
    // Numbers that are written alike are equal.
    assert_eq!(of(&Margin::Share(0.0), &[&[0.001, 0.0]]), [0, 1]);
}

#[test]
fn the_first_is_not_the_best_by_one_criterion_at_any_price() {
    // Of 26, the first is the fastest and otherwise the last, another one is second and third: the compromise.
    let worst = |at: usize| if at == 0 { 100.0 } else { 50.0 + at as f64 };
    let one: Vec<f64> = (0..26)
        .map(|at| [1.0, 2.0].get(at).copied().unwrap_or(at as f64 * 9.0))
        .collect();
    let two: Vec<f64> = (0..26)
        .map(|at| if at == 1 { 40.0 } else { worst(at) })
        .collect();
    let both = criteria(&Margin::Points(0.5), &[&one, &two, &two]);
    assert_eq!(Choice::of(&both).chosen[0], 1);
}

#[test]
fn lists_and_metadata_are_memory_of_their_own() {
    let of = |idle: f64, metadata: f64| own_memory(&[Some(idle)], &[Some(metadata)], 1000)[0];
    assert_eq!(of(10.0, 0.0), Some(1.0));
    assert_eq!(of(0.0, 40.96), Some(1.0));
    assert_eq!(own_memory(&[None], &[Some(1.0)], 1000), [None]);
}

#[test]
fn the_choice_matters_by_the_time_of_the_calls() {
    let little = matters(0.0025);
    assert!(
        little.starts_with("With Linux's lists, these calls take 0.25% of the time"),
        "{little}"
    );
    assert!(little.contains("no allocator makes this program noticeably faster"));
    assert!(
        matters(0.025).contains("2.50% of the time of the CPUs that made them: apart from waits")
    );
    assert!(matters(0.000_01).contains("less than 0.01% of"));
}

#[test]
fn the_rule_says_what_decides() {
    let mut both = criteria(&Margin::Share(0.05), &[&[1.0], &[1.0]]);
    (both[0].name, both[0].margin) = (TIME, Margin::Rounds(vec![vec![1.0]]));
    let text = rule(&both, true, &[]);
    assert!(!text.contains("Not judged"), "{text}");
    let of_two = rule(&both, true, &["linux-6".to_string(), "zones-4".to_string()]);
    assert!(of_two.ends_with("without locks: `linux-6`, `zones-4`."));
    for part in [
        "or if Linux's median or mean is more than 5% shorter.",
        "wastes at most 5 points more memory",
        "time (mean allocation and mean free together), a number.",
        "a shorter time in each round, more than 5% less a number: smaller",
        "but not by time alone where these calls take less than 1%",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let without = rule(&both, false, &[]);
    assert!(!without.contains("Linux"), "{without}");
    both[0].margin = Margin::Means(0.05);
    assert!(rule(&both, true, &[]).contains("if Linux's time is more than 5% shorter."));
    both[0].margin = Margin::Points(points_of(2));
    assert!(rule(&both, true, &[]).contains("more than 5 points less time"));
    let summary = |front: usize, chosen: usize| {
        let choice = Choice {
            front: (0..front).collect(),
            chosen: (0..chosen).collect(),
        };
        choice.summary("bs", "26 systems")
    };
    let best = "`bs` is the best of 26 systems: none of the others is better by any criterion.";
    assert_eq!(summary(1, 1), best);
    let compromise = "`bs` is the best compromise of 26 systems. ";
    let others = format!("{compromise}3 others are better in something.");
    assert_eq!(summary(4, 4), others);
    assert!(summary(2, 2).ends_with("One other is better in something."));
    let more = "8 others are better in something; the best by each criterion follow.";
    assert_eq!(summary(9, 5), format!("{compromise}{more}"));
}

#[test]
fn a_time_stands_beside_linuxs_with_an_interval() {
    let of = |own: &[f64], linux: &[f64]| {
        let mean = |rounds: &[f64]| Some(rounds.iter().sum::<f64>() / rounds.len() as f64);
        Beside::of(mean(own), mean(linux), [own, linux]).unwrap()
    };
    let fast = of(&[5.0, 5.5, 6.0], &[10.0; 3]);
    assert_eq!(fast.text(), " Time: 0.55 of Linux's (0.50 to 0.60).");
    assert!(!fast.is_slower());
    let near = of(&[10.5, 10.0, 9.5], &[10.0; 3]);
    assert_eq!(
        near.text(),
        " Time: 1.00 of Linux's (0.95 to 1.05, within noise)."
    );
    assert!(!near.is_slower());
    // A little slower in each round is slower, and so is a median that is much longer, whatever one round says.
    assert!(of(&[10.2, 10.1, 10.2], &[10.0; 3]).is_slower());
    let disturbed = of(&[14.0, 8.0, 15.0], &[10.0; 3]);
    assert!(disturbed.is_slower());
    assert_eq!(disturbed.text(), " Time: 1.40 of Linux's (0.80 to 1.50).");
    assert!(!of(&[10.4, 9.0, 10.5], &[10.0; 3]).is_slower());
    // Where rounds are disturbed, they and the means that the table shows may disagree.
    let rounds: [&[f64]; 2] = [&[9.8, 10.0, 13.2], &[10.0; 3]];
    assert!(
        !Beside::of(Some(10.4), Some(10.0), rounds)
            .unwrap()
            .is_slower()
    );
    assert!(
        Beside::of(Some(11.4), Some(10.0), rounds)
            .unwrap()
            .is_slower()
    );
    // Without rounds, a twentieth decides.
    let of_means = |own: f64| Beside::of(Some(own), Some(10.0), [&[], &[]]).unwrap();
    assert_eq!(of_means(5.0).text(), " Time: 0.50 of Linux's.");
    assert_eq!(
        of_means(10.2).text(),
        " Time: 1.02 of Linux's, within noise."
    );
    assert!(!of_means(10.2).is_slower() && of_means(10.6).is_slower());
    assert!(Beside::of(None, Some(1.0), [&[], &[]]).is_none());
}
