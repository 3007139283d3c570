//! Locales and time zones of Linux, as Windows names them. Sources: Unicode CLDR, windowsZones;
//! Microsoft's list of default input profiles.

/// Zones of Linux, and what Windows calls them.
const ZONES: &[(&str, &str)] = &[
    ("UTC", "UTC"),
    ("Etc/UTC", "UTC"),
    ("Europe/London", "GMT Standard Time"),
    ("Europe/Dublin", "GMT Standard Time"),
    ("Europe/Lisbon", "GMT Standard Time"),
    ("Atlantic/Reykjavik", "Greenwich Standard Time"),
    ("Europe/Berlin", "W. Europe Standard Time"),
    ("Europe/Vienna", "W. Europe Standard Time"),
    ("Europe/Zurich", "W. Europe Standard Time"),
    ("Europe/Amsterdam", "W. Europe Standard Time"),
    ("Europe/Rome", "W. Europe Standard Time"),
    ("Europe/Stockholm", "W. Europe Standard Time"),
    ("Europe/Oslo", "W. Europe Standard Time"),
    ("Europe/Luxembourg", "W. Europe Standard Time"),
    ("Europe/Paris", "Romance Standard Time"),
    ("Europe/Brussels", "Romance Standard Time"),
    ("Europe/Madrid", "Romance Standard Time"),
    ("Europe/Copenhagen", "Romance Standard Time"),
    ("Europe/Prague", "Central Europe Standard Time"),
    ("Europe/Budapest", "Central Europe Standard Time"),
    ("Europe/Bratislava", "Central Europe Standard Time"),
    ("Europe/Ljubljana", "Central Europe Standard Time"),
    ("Europe/Belgrade", "Central Europe Standard Time"),
    ("Europe/Warsaw", "Central European Standard Time"),
    ("Europe/Zagreb", "Central European Standard Time"),
    ("Europe/Sarajevo", "Central European Standard Time"),
    ("Europe/Athens", "GTB Standard Time"),
    ("Europe/Bucharest", "GTB Standard Time"),
    ("Europe/Helsinki", "FLE Standard Time"),
    ("Europe/Kiev", "FLE Standard Time"),
    ("Europe/Kyiv", "FLE Standard Time"),
    ("Europe/Riga", "FLE Standard Time"),
    ("Europe/Sofia", "FLE Standard Time"),
    ("Europe/Tallinn", "FLE Standard Time"),
    ("Europe/Vilnius", "FLE Standard Time"),
    ("Europe/Istanbul", "Turkey Standard Time"),
    ("Europe/Moscow", "Russian Standard Time"),
    ("Europe/Minsk", "Belarus Standard Time"),
    ("Africa/Cairo", "Egypt Standard Time"),
    ("Africa/Johannesburg", "South Africa Standard Time"),
    ("Africa/Lagos", "W. Central Africa Standard Time"),
    ("Africa/Nairobi", "E. Africa Standard Time"),
    ("Africa/Casablanca", "Morocco Standard Time"),
    ("Asia/Jerusalem", "Israel Standard Time"),
    ("Asia/Riyadh", "Arab Standard Time"),
    ("Asia/Dubai", "Arabian Standard Time"),
    ("Asia/Tehran", "Iran Standard Time"),
    ("Asia/Karachi", "Pakistan Standard Time"),
    ("Asia/Kolkata", "India Standard Time"),
    ("Asia/Calcutta", "India Standard Time"),
    ("Asia/Dhaka", "Bangladesh Standard Time"),
    ("Asia/Bangkok", "SE Asia Standard Time"),
    ("Asia/Jakarta", "SE Asia Standard Time"),
    ("Asia/Ho_Chi_Minh", "SE Asia Standard Time"),
    ("Asia/Singapore", "Singapore Standard Time"),
    ("Asia/Manila", "Singapore Standard Time"),
    ("Asia/Shanghai", "China Standard Time"),
    ("Asia/Hong_Kong", "China Standard Time"),
    ("Asia/Taipei", "Taipei Standard Time"),
    ("Asia/Seoul", "Korea Standard Time"),
    ("Asia/Tokyo", "Tokyo Standard Time"),
    ("Australia/Perth", "W. Australia Standard Time"),
    ("Australia/Adelaide", "Cen. Australia Standard Time"),
    ("Australia/Brisbane", "E. Australia Standard Time"),
    ("Australia/Sydney", "AUS Eastern Standard Time"),
    ("Australia/Melbourne", "AUS Eastern Standard Time"),
    ("Australia/Hobart", "Tasmania Standard Time"),
    ("Pacific/Auckland", "New Zealand Standard Time"),
    ("Pacific/Honolulu", "Hawaiian Standard Time"),
    ("America/Anchorage", "Alaskan Standard Time"),
    ("America/Los_Angeles", "Pacific Standard Time"),
    ("America/Vancouver", "Pacific Standard Time"),
    ("America/Phoenix", "US Mountain Standard Time"),
    ("America/Denver", "Mountain Standard Time"),
    ("America/Edmonton", "Mountain Standard Time"),
    ("America/Chicago", "Central Standard Time"),
    ("America/Winnipeg", "Central Standard Time"),
    ("America/Mexico_City", "Central Standard Time (Mexico)"),
    ("America/New_York", "Eastern Standard Time"),
    ("America/Toronto", "Eastern Standard Time"),
    ("America/Bogota", "SA Pacific Standard Time"),
    ("America/Lima", "SA Pacific Standard Time"),
    ("America/Halifax", "Atlantic Standard Time"),
    ("America/Santiago", "Pacific SA Standard Time"),
    ("America/St_Johns", "Newfoundland Standard Time"),
    ("America/Sao_Paulo", "E. South America Standard Time"),
    ("America/Argentina/Buenos_Aires", "Argentina Standard Time"),
    ("America/Buenos_Aires", "Argentina Standard Time"),
];

/// Locales with their keyboards; others are given to Windows by their name alone, which picks the
/// usual one.
const KEYBOARDS: &[(&str, &str)] = &[
    ("en-US", "0409:00000409"),
    ("en-GB", "0809:00000809"),
    ("de-DE", "0407:00000407"),
    ("de-AT", "0c07:00000407"),
    ("de-CH", "0807:00000807"),
    ("fr-FR", "040c:0000040c"),
    ("fr-CH", "100c:0000100c"),
    ("fr-BE", "080c:0000080c"),
    ("it-IT", "0410:00000410"),
    ("es-ES", "0c0a:0000040a"),
    ("es-MX", "080a:0000080a"),
    ("pt-BR", "0416:00000416"),
    ("pt-PT", "0816:00000816"),
    ("nl-NL", "0413:00020409"),
    ("da-DK", "0406:00000406"),
    ("sv-SE", "041d:0000041d"),
    ("nb-NO", "0414:00000414"),
    ("fi-FI", "040b:0000040b"),
    ("pl-PL", "0415:00000415"),
    ("cs-CZ", "0405:00000405"),
    ("sk-SK", "041b:0000041b"),
    ("hu-HU", "040e:0000040e"),
    ("ru-RU", "0419:00000419"),
    ("tr-TR", "041f:0000041f"),
];

/// `de_AT.UTF-8@euro` or `de-at` as `de-AT`; `None` for `C`, `POSIX` and what is no locale.
pub fn locale_of(text: &str) -> Option<String> {
    let text = text.split(['.', '@']).next()?;
    let (language, region) = text.split_once(['_', '-'])?;
    let letters = |part: &str, lens: &[usize]| {
        lens.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphabetic())
    };
    (letters(language, &[2, 3]) && letters(region, &[2]))
        .then(|| format!("{}-{}", language.to_ascii_lowercase(), region.to_ascii_uppercase()))
}

/// Windows' name of a zone of Linux; one that is Windows' own stays as it is.
pub fn windows_zone(text: &str) -> Option<&'static str> {
    let found = ZONES.iter().find(|(linux, windows)| {
        linux.eq_ignore_ascii_case(text) || windows.eq_ignore_ascii_case(text)
    });
    found.map(|(_, windows)| *windows)
}

/// The zone that the link `/etc/localtime` names.
pub fn zone_of(link: &str) -> Option<&str> {
    link.split_once("/zoneinfo/").map(|(_, zone)| zone).filter(|zone| !zone.is_empty())
}

/// The keyboard of a locale.
pub(super) fn keyboard(locale: &str) -> String {
    let found = KEYBOARDS.iter().find(|(name, _)| *name == locale);
    found.map_or(locale, |(_, keyboard)| *keyboard).to_owned()
}
