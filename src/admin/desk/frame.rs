//! What all pages have around what they are about: who is signed in, where one can go, and what came
//! of what was just done.

use super::sign_in::SignIn;

/// The pages in their bar: name, path and word.
pub(in crate::admin) const PAGES: [(&str, &str, &str); 6] = [
    ("approvals", "/approvals", "Waiting"),
    ("history", "/approvals/history", "Decided"),
    ("grants", "/grants", "Grants"),
    ("calls", "/calls", "Unknown"),
    ("tools", "/tools", "Tools"),
    ("incidents", "/incidents", "Incidents"),
];

/// What is around a page.
#[derive(Debug)]
pub(super) struct PageFrame<'a> {
    /// What the page is called.
    pub title: &'a str,
    /// Its name of [`PAGES`], or another.
    pub page: &'static str,
    /// Who is signed in.
    pub who: &'a str,
    /// What forms bring; none while nobody is signed in.
    pub form_secret: Option<&'a str>,
    /// What came of what was just done.
    pub note: Option<PageNote>,
}

/// What came of what was just done.
#[derive(Debug, Clone)]
pub(super) struct PageNote {
    /// In words.
    pub words: String,
    /// Whether it was done.
    pub is_good: bool,
}

impl<'a> PageFrame<'a> {
    /// Around a page for who has signed in.
    pub(super) fn of(sign_in: &'a SignIn, page: &'static str, title: &'a str) -> Self {
        Self {
            title,
            page,
            who: &sign_in.operator.name,
            form_secret: Some(&sign_in.form_secret),
            note: None,
        }
    }

    /// Whether it is that page.
    pub(super) fn is_at(&self, page: &str) -> bool {
        self.page == page
    }

    /// What forms bring.
    pub(super) fn secret(&self) -> &str {
        self.form_secret.unwrap_or_default()
    }
}

impl PageNote {
    /// That something was done.
    pub(super) fn good(words: impl Into<String>) -> Self {
        let words = words.into();
        Self {
            words,
            is_good: true,
        }
    }

    /// That nothing was, and why.
    pub(super) fn bad(words: impl Into<String>) -> Self {
        let words = words.into();
        Self {
            words,
            is_good: false,
        }
    }

    /// The class of its element.
    pub(super) fn class(&self) -> &'static str {
        if self.is_good { "good" } else { "bad" }
    }
}
