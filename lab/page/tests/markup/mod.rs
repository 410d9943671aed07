//! What the tests read in a page: its markup, and values of attributes.

/// Returns the page without data and scripts.
pub(crate) fn markup(html: &str) -> String {
    let mut rest = html;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("<script") {
        out += before;
        rest = after.split_once("</script>").expect("each script ends").1;
    }
    out + rest
}

/// Returns the values of an attribute.
pub(crate) fn values<'h>(html: &'h str, attribute: &str) -> Vec<&'h str> {
    let start = format!(" {attribute}=\"");
    let parts = html.split(start.as_str()).skip(1);
    parts.filter_map(|part| part.split('"').next()).collect()
}
