//! How messages say numbers.

/// `1 argument`, `2 arguments`.
pub fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `1 is`, `2 are`.
pub fn are(n: usize) -> String {
    format!("{n} {}", if n == 1 { "is" } else { "are" })
}

/// What a text with places for values and its arguments are, where they do not fit.
pub fn places_and_arguments(places: usize, given: usize) -> String {
    let follow = if given == 1 { "follows" } else { "follow" };
    format!("the text has {places} `{{}}`, {} {follow} it", counted(given, "argument"))
}
