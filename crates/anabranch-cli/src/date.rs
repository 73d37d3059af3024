//! Today's date.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// The date in UTC, such as 2026-11-22.
pub(crate) fn today() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY)
}

/// The date that many days after 1970-01-01.
fn date(mut days: u64) -> String {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_are_counted_from_1970() {
        let dates = [(0, "1970-01-01"), (59, "1970-03-01"), (11016, "2000-02-29"), (20779, "2026-11-22")];
        for (days, expected) in dates {
            assert_eq!(date(days), expected);
        }
        assert_eq!(date(20818), "2026-12-31");
    }
}
