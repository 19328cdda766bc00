//! Colours of the dashboard: texts have 4.5:1 against their background, fills and borders of controls 3:1 (WCAG 2.2, 1.4.3 and 1.4.11).

const STYLE: &str = include_str!("../../../assets/app.css");

type Colour = [f64; 3];

/// A token of the style, light and dark.
fn token(name: &str) -> [Colour; 2] {
    let line = STYLE.lines().find(|line| line.trim_start().starts_with(&format!("--{name}: light-dark(")));
    let line = line.unwrap_or_else(|| panic!("no token {name}"));
    let mut colours = line.split('#').skip(1).map(|text| {
        let part = |at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap()) / 255.0;
        [part(0), part(2), part(4)]
    });
    [colours.next().unwrap(), colours.next().unwrap()]
}

/// As in `color-mix(in srgb, …)`.
fn mixed(colour: Colour, part: f64, under: Colour) -> Colour {
    std::array::from_fn(|at| colour[at] * part + under[at] * (1.0 - part))
}

fn luminance(colour: Colour) -> f64 {
    let [r, g, b] =
        colour.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

const STATES: [&str; 8] =
    ["scheduled", "queued", "running", "retrying", "completed", "dead", "cancelled", "paused"];

#[test]
fn texts_have_enough_contrast() {
    for theme in 0..2 {
        let of = |name: &str| token(name)[theme];
        let (surface, tint) = (of("surface"), [0.12, 0.16][theme]);
        for text in ["text", "muted", "accent", "dead"] {
            for under in ["bg", "surface", "raised"] {
                let is = contrast(of(text), of(under));
                assert!(is >= 4.5, "{text} on {under}, theme {theme}: {is:.2}");
            }
        }
        for state in STATES {
            let is = contrast(of(state), surface);
            assert!(is >= 4.5, "{state}, theme {theme}: {is:.2}");
            let badge = mixed(of(state), tint, surface);
            let is = contrast(of(state), badge);
            assert!(is >= 4.5, "{state} on its badge, theme {theme}: {is:.2}");
            let is = contrast(surface, of(state));
            assert!(is >= 4.5, "a name on a bar of {state}, theme {theme}: {is:.2}");
        }
        let trouble = mixed(of("fill-dead"), tint, surface);
        assert!(contrast(of("dead"), trouble) >= 4.5, "theme {theme}");
        assert!(contrast(of("on-accent"), of("accent")) >= 4.5, "theme {theme}");
        for fill in
            ["fill-queued", "fill-running", "fill-completed", "fill-dead", "fill-cancelled", "control"]
        {
            let is = contrast(of(fill), surface);
            assert!(is >= 3.0, "{fill}, theme {theme}: {is:.2}");
        }
    }
}

#[test]
fn badges_are_tinted_over_the_surface() {
    assert!(STYLE.contains("color-mix(in srgb, var(--state) var(--tint), var(--surface))"));
    assert!(STYLE.contains(":root { --tint: 12%; }") && STYLE.contains("--tint: 16%;"));
}
