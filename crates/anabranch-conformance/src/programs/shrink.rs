//! Makes programs shorter.

/// Finds few of `count` calls for which `holds` is still true, as it is for all of them. It removes ever smaller parts until
/// no single call can be removed, or until it has asked `limit` times (delta debugging).
///
/// # Errors
///
/// Those of `holds`.
pub fn shrink<E>(
    count: usize,
    limit: usize,
    mut holds: impl FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Vec<usize>, E> {
    let mut calls: Vec<usize> = (0..count).collect();
    let (mut part, mut asked) = (count.div_ceil(2), 0);
    while part > 0 && asked < limit {
        let (mut start, mut removed) = (0, false);
        while start < calls.len() && asked < limit {
            let end = (start + part).min(calls.len());
            let rest: Vec<usize> = calls[..start].iter().chain(&calls[end..]).copied().collect();
            asked += 1;
            if holds(&rest)? {
                (calls, removed) = (rest, true);
            } else {
                start = end;
            }
        }
        part = match (part, removed) {
            (1, true) => 1,
            (part, _) => part / 2,
        };
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use std::convert::Infallible;

    #[test]
    fn only_what_is_needed_is_left() {
        let needed = [3, 40, 41, 77];
        let holds = |calls: &[usize]| Ok::<_, Infallible>(needed.iter().all(|call| calls.contains(call)));
        assert_eq!(shrink(100, 1000, holds), Ok(needed.to_vec()));
        assert_eq!(shrink(5, 100, |_| Ok::<_, Infallible>(true)), Ok(vec![]));
        assert_eq!(shrink(5, 100, |calls| Ok::<_, Infallible>(calls.len() == 5)), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(shrink(5, 100, |_| Err("it does not run")), Err("it does not run"));
    }
}
