//! Graphs of what uses what, and the code of a file without its tests: what the search for import cycles is made of.

use std::collections::{BTreeMap, BTreeSet};

/// For each node, the nodes that it uses.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns the code of a file without comments and tests, and the names of the test modules that it declares.
pub(crate) fn without_tests(text: &str) -> (String, BTreeSet<String>) {
    let mut code = String::new();
    let mut tests = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#![cfg(test)]" {
            return (String::new(), tests);
        }
        if line != "#[cfg(test)]" {
            code.push_str(line.split("//").next().unwrap_or_default());
            code.push('\n');
            continue;
        }
        let item = lines.next().unwrap_or_default();
        match item
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'))
        {
            Some(module) => tests.extend([module.to_owned()]),
            None if item.ends_with('{') => while lines.next().is_some_and(|line| line != "}") {},
            None => {}
        }
    }
    (code, tests)
}

/// Joins the nodes that can reach each other. The groups are in the order of the names.
pub(crate) fn condensed(graph: &Graph) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|node| (node, reachable(graph, node)))
        .collect();
    let mut groups: Vec<Vec<String>> = Vec::new();
    for node in graph.keys() {
        let is_joined = |group: &&mut Vec<String>| {
            reach[&group[0]].contains(node) && reach[node].contains(&group[0])
        };
        match groups.iter_mut().find(is_joined) {
            Some(group) => group.push(node.clone()),
            None => groups.push(vec![node.clone()]),
        }
    }
    groups
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = graph[from].iter().collect();
    while let Some(node) = open.pop() {
        if found.insert(node) {
            open.extend(&graph[node]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        edges
            .iter()
            .map(|(node, uses)| ((*node).to_owned(), set(uses)))
            .collect()
    }

    #[test]
    fn tests_and_comments_are_left_out() {
        let text = "use crate::a;\n// use crate::no::X;\n#[cfg(test)]\nmod tests;\nfn f() {}\n\n#[cfg(test)]\n\
                    mod more {\nuse crate::no;\n}\n";
        let (code, tests) = without_tests(text);
        assert!(code.contains("crate::a") && !code.contains("no"));
        assert_eq!(tests, BTreeSet::from(["tests".to_owned()]));
    }

    #[test]
    fn cycles_share_a_node() {
        let cyclic = graph(&[
            ("a", &["b", "c", "d"]),
            ("b", &["c"]),
            ("c", &["b", "d"]),
            ("d", &[]),
        ]);
        assert_eq!(condensed(&cyclic), [vec!["a"], vec!["b", "c"], vec!["d"]]);
    }
}
