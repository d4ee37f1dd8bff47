//! A finished figure: its drawing, its description in words, its values.

/// See the module.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The name of its file, without `.svg`.
    pub name: String,
    /// Its title.
    pub title: String,
    /// A description for readers who cannot see it.
    pub description: String,
    /// The SVG document.
    pub svg: String,
    /// What it draws.
    pub values: Values,
}

/// A table of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// As many cells each as there are heads.
    pub rows: Vec<Vec<String>>,
}

impl Drawing {
    /// Of what plotters has drawn; the title and the words become part of it.
    pub fn new(
        name: String,
        title: String,
        description: String,
        svg: &str,
        values: Values,
    ) -> Drawing {
        let words =
            format!("<title>{}</title><desc>{}</desc>", escaped(&title), escaped(&description));
        let role = format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(&title));
        let svg = svg.replacen("<svg ", &role, 1);
        let svg = match svg.find("<svg ").and_then(|at| svg[at..].find('>').map(|end| at + end + 1))
        {
            Some(end) => format!("{}{words}{}", &svg[..end], &svg[end..]),
            None => svg,
        };
        Drawing { name, title, description, svg, values }
    }
}

/// A text as HTML and XML take it, in elements and in attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

/// A text as part of a file's name.
pub fn file_name(text: &str) -> String {
    let dashed: String = text
        .chars()
        .map(
            |letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' },
        )
        .collect();
    let words: Vec<&str> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_speaks() {
        let svg = "<svg width=\"1\" height=\"1\">\n<rect/></svg>";
        let drawing =
            Drawing::new("a".into(), "A < B".into(), "\"x\"".into(), svg, Values::default());
        let expected = "<svg role=\"img\" aria-label=\"A &lt; B\" width=\"1\" height=\"1\">\
            <title>A &lt; B</title><desc>&quot;x&quot;</desc>\n<rect/></svg>";
        assert_eq!(drawing.svg, expected);
    }

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name("Throughput, 8× slower / FECN"), "throughput-8-slower-fecn");
    }
}
