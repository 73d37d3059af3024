//! What the driver answers, as results of the contract.

use crate::ffi::MissingSymbol;
use crate::ffi::cuda_types::{CUDA_SUCCESS, CUresult};
use anabranch_hal::{Detail, Failure, Result, Status};

/// What a function of the driver answers.
pub(crate) type Answer = std::result::Result<CUresult, MissingSymbol>;

/// The result of a call into the driver.
#[inline]
pub(crate) fn check(answer: Answer) -> Result<()> {
    match answer {
        Ok(CUDA_SUCCESS) => Ok(()),
        Ok(code) => Err(Failure::new(status(code))),
        Err(missing) => Err(missing_symbol(missing)),
    }
}

/// A code of the driver as a status. The bits stay what they are: the header declares codes as a C enumeration, whose
/// values fit both types.
#[inline]
pub(crate) const fn status(code: CUresult) -> Status {
    Status(code as i32)
}

#[cold]
pub(crate) fn missing_symbol(missing: MissingSymbol) -> Failure {
    let detail = Detail::MissingSymbol { symbol: missing.name, since: missing.since };
    Failure::with_detail(Status::NOT_SUPPORTED, detail)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::ffi::MissingSymbol;
    use anabranch_hal::{Detail, Failure, Status};

    #[test]
    fn success_is_no_failure() {
        assert_eq!(check(Ok(0)), Ok(()));
    }

    #[test]
    fn a_code_is_kept_as_it_is_also_when_nobody_knows_it() {
        assert_eq!(check(Ok(600)), Err(Failure::new(Status::NOT_READY)));
        assert_eq!(check(Ok(4242)), Err(Failure::new(Status(4242))));
        assert_eq!(check(Ok(u32::MAX)), Err(Failure::new(Status(-1))));
    }

    #[test]
    fn a_missing_symbol_is_not_supported_and_is_named() {
        let failure = check(Err(MissingSymbol { name: "cuFuncGetParamInfo", since: 12040 })).unwrap_err();
        assert_eq!(failure.status, Status::NOT_SUPPORTED);
        let detail = Detail::MissingSymbol { symbol: "cuFuncGetParamInfo", since: 12040 };
        assert_eq!(failure.detail.as_deref(), Some(&detail));
        assert!(failure.to_string().contains("cuFuncGetParamInfo, which came with CUDA 12.4"), "{failure}");
    }
}
