//! The whole product of replies against rules of its own: what is taken must lie where the bytes of
//! the file belong, whatever the reply looks like.

use super::*;

const TOTAL: u64 = 1000;
const HERE: &str = "http://a/x.iso";
const DATE: &str = "Tue, 01 Dec 2026 00:00:00 GMT";
const LATER: &str = "Wed, 02 Dec 2026 00:00:00 GMT";

fn version(tag: &str) -> Version {
    Version { validator: Validator::Tag(tag.to_owned()), by: HERE.to_owned() }
}

fn fresh() -> Asked {
    Asked { names: vec!["x.iso".to_owned()], ..Asked::default() }
}

fn resumed() -> Asked {
    Asked {
        offset: 100,
        ranged: true,
        joins: true,
        total: Some(TOTAL),
        version: Some(version("\"a\"")),
        ..fresh()
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn head(status: u16, range: &str, length: &str, etag: &str) -> Head {
    Head {
        status,
        by: HERE.to_owned(),
        content_range: some(range),
        content_length: some(length),
        etag: some(etag),
        ..Head::default()
    }
}

/// All that may be asked for.
fn questions() -> Vec<Asked> {
    let mut all = vec![
        fresh(),
        Asked { total: Some(TOTAL), ..fresh() },
        // A piece of several, the first one, with what the others brought.
        Asked { offset: 0, ..resumed() },
        resumed(),
        Asked { ranged: false, ..resumed() },
        Asked { version: None, ..resumed() },
        Asked { total: None, ..resumed() },
        Asked { offset: TOTAL, ..resumed() },
        Asked {
            version: Some(Version {
                validator: Validator::Date(DATE.to_owned()),
                by: HERE.to_owned(),
            }),
            ..resumed()
        },
    ];
    let proven: Vec<Asked> = all.iter().map(|a| Asked { proven: true, ..a.clone() }).collect();
    all.extend(proven);
    all
}

/// All that may be answered.
fn answers() -> Vec<Head> {
    let ranges = [
        "",
        "bytes 100-999/1000",
        "bytes 64-999/1000",
        "bytes 0-999/1000",
        "bytes 0-99/1000",
        "bytes 100-199/1000",
        "bytes 101-999/1000",
        "bytes 100-999/*",
        "bytes 100-1099/1100",
        "bytes 100-1099/*",
        "bytes 0-899/900",
        "bytes 100-1000/1000",
        "bytes 999-100/1000",
        "bytes */1000",
        "bytes */900",
        "lines 100-999/1000",
        "bytes 100-18446744073709551615/*",
    ];
    let mut all = Vec::new();
    for status in [200, 204, 206, 302, 404, 416, 503] {
        for range in ranges {
            for length in ["", "1000", "900", "100", "936", "900, 900", "900, 1000", "-1"] {
                for etag in ["", "\"a\"", "\"b\"", "W/\"a\""] {
                    all.push(head(status, range, length, etag));
                }
            }
        }
    }
    let mut with = |change: &dyn Fn(&mut Head)| {
        let mut more = all.clone();
        more.iter_mut().for_each(change);
        all.extend(more);
    };
    with(&|head| head.transfer_encoding = Some("chunked".to_owned()));
    with(&|head| head.content_encoding = Some("gzip".to_owned()));
    with(&|head| {
        head.last_modified = Some(DATE.to_owned());
        head.date = Some(LATER.to_owned());
    });
    with(&|head| head.by = "http://mirror/x.iso".to_owned());
    let mut typed = all.clone();
    for (at, head) in typed.iter_mut().enumerate() {
        let kinds = ["text/html; charset=utf-8", "multipart/byteranges; boundary=x"];
        head.content_type = Some(kinds[at % 2].to_owned());
    }
    all.extend(typed);
    all
}

/// Where a body begins and ends in the file, by the words of RFC 9110 alone, read a second time.
fn meant(head: &Head) -> Option<(u64, Option<u64>, Option<u64>)> {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    let lengths = head.content_length.as_deref().map(numbers).unwrap_or_default();
    let length = lengths.first().copied();
    let odd = head.content_length.as_deref().is_some_and(|text| text.starts_with('-'));
    if odd || lengths.iter().any(|other| Some(*other) != length) {
        return None;
    }
    if head.transfer_encoding.is_some() && length.is_some() {
        return None;
    }
    if head.content_type.as_deref().is_some_and(|kind| kind.starts_with("multipart/")) {
        return None;
    }
    match (head.status, head.content_range.as_deref()) {
        (200, None) => Some((0, length, length)),
        (200 | 206, Some(range)) if range.starts_with("bytes ") && range.contains('-') => {
            let found = numbers(range);
            let (first, last) = (found[0], *found.get(1)?);
            let total = found.get(2).copied();
            let bytes = last.checked_sub(first)?.checked_add(1)?;
            let sound = total.is_none_or(|total| last < total)
                && length.is_none_or(|length| length == bytes);
            // As the whole only what is the whole.
            let whole = first == 0 && total == Some(bytes);
            (sound && (head.status == 206 || whole)).then_some((first, Some(bytes), total))
        }
        _ => None,
    }
}

/// Whether this reply may be put beside what is there, by a rule that does not look at the code.
fn may_be_taken(asked: &Asked, head: &Head) -> bool {
    let Some((first, bytes, total)) = meant(head) else { return false };
    // Where the whole was asked for, only the whole is taken.
    if head.status == 206 && !asked.ranged && (first > 0 || total.is_none() || total != bytes) {
        return false;
    }
    if first > asked.offset
        || head.status == 206 && bytes.is_some_and(|n| first + n <= asked.offset)
    {
        return false;
    }
    if head.content_encoding.is_some() && !asked.proven {
        return false;
    }
    if !asked.joins && asked.offset == 0 {
        return true;
    }
    let end = bytes.map(|bytes| first + bytes);
    if let Some(known) = asked.total
        && (total.is_some_and(|total| total != known) || end.is_some_and(|end| end > known))
    {
        return false;
    }
    let strong = |tag: &Option<String>| tag.clone().filter(|tag| tag.starts_with('"'));
    let same_address = asked.version.as_ref().is_some_and(|version| version.by == head.by);
    let (same, other) = match asked.version.as_ref().map(|version| &version.validator) {
        Some(Validator::Tag(old)) if same_address => (
            strong(&head.etag).as_ref() == Some(old),
            strong(&head.etag).is_some_and(|new| new != *old),
        ),
        Some(Validator::Date(old)) if same_address => (
            head.last_modified.as_ref() == Some(old),
            head.last_modified.as_ref().is_some_and(|new| new != old),
        ),
        _ => (false, false),
    };
    same || asked.proven && !other
}

#[test]
fn c17_c18_what_is_taken_lies_where_it_belongs_over_the_whole_product() {
    let (questions, answers) = (questions(), answers());
    let (mut judged, mut taken) = (0_u64, 0_u64);
    for asked in &questions {
        for head in &answers {
            judged += 1;
            match judge(asked, head) {
                Judgement::Take { skip, total, body, .. } => {
                    taken += 1;
                    assert!(may_be_taken(asked, head), "taken: {asked:?} {head:?}");
                    let (first, bytes, whole) = meant(head).unwrap();
                    assert_eq!(asked.offset - skip, first, "{asked:?} {head:?}");
                    assert!(
                        body.is_none_or(|n| bytes.is_none_or(|m| m == n)),
                        "{asked:?} {head:?}"
                    );
                    assert_eq!(total, whole.or(asked.total), "{asked:?} {head:?}");
                }
                Judgement::Complete => {
                    assert!(head.status == 416 && asked.offset == TOTAL, "{asked:?} {head:?}");
                }
                Judgement::Changed { .. }
                | Judgement::Unproven { .. }
                | Judgement::NoPart { .. }
                | Judgement::Later { .. }
                | Judgement::No { .. } => {}
            }
        }
    }
    println!("{judged} replies judged, {taken} of them taken");
    assert!(judged > 2_000_000 && taken > 5_000, "{judged} {taken}");
}

#[test]
fn good_replies_are_taken() {
    for (what, asked, head, wanted) in [
        ("as asked", resumed(), head(206, "bytes 100-999/1000", "900", "\"a\""), (0, 900)),
        (
            "from an aligned start",
            resumed(),
            head(206, "bytes 64-999/1000", "936", "\"a\""),
            (36, 936),
        ),
        ("from 0 all the same", resumed(), head(206, "bytes 0-999/1000", "", "\"a\""), (100, 1000)),
        ("less than asked", resumed(), head(206, "bytes 100-199/1000", "100", "\"a\""), (0, 100)),
        ("Range ignored", resumed(), head(200, "", "1000", "\"a\""), (100, 1000)),
        ("the first time", fresh(), head(200, "", "1000", ""), (0, 1000)),
    ] {
        let Judgement::Take { skip, body, .. } = judge(&asked, &head) else {
            panic!("{what}: {:?}", judge(&asked, &head))
        };
        assert_eq!((skip, body), (wanted.0, Some(wanted.1)), "{what}");
    }
    let done = Asked { offset: TOTAL, ..resumed() };
    assert_eq!(judge(&done, &head(416, "bytes */1000", "", "\"a\"")), Judgement::Complete);
}

#[test]
fn a_length_that_nobody_states_is_told_from_one_that_is() {
    let framing = |head: &Head| match judge(&fresh(), head) {
        Judgement::Take { framing, .. } => framing,
        other => panic!("{other:?}"),
    };
    assert_eq!(framing(&head(200, "", "", "")), Framing::Closed);
    assert_eq!(framing(&head(200, "", "5", "")), Framing::Counted(5));
    let chunked = Head { transfer_encoding: some("chunked"), ..head(200, "", "", "") };
    assert_eq!(framing(&chunked), Framing::Chunked);
}

#[test]
fn an_expired_link_says_that_a_new_one_continues_from_here() {
    let Judgement::No { why, hint } = judge(&resumed(), &head(403, "", "", "")) else {
        panic!("taken");
    };
    assert_eq!(why, "the server answered 403 Forbidden");
    assert!(hint.contains("expired") && hint.contains("kept"), "{hint}");
}

#[test]
fn waits_are_bounded() {
    let mut busy = head(503, "", "", "");
    for (after, wait) in [("7", Some(7)), ("100000", None), ("soon", None)] {
        busy.retry_after = Some(after.to_owned());
        let Judgement::Later { after, .. } = judge(&fresh(), &busy) else { panic!("taken") };
        assert_eq!(after.map(|d| d.as_secs()), wait);
    }
}
