//! What an expression says of a call, and why it says nothing when it fails.

use cel::ExecutionError;

/// What came of an expression that has to be true or false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpressionVerdict {
    True,
    False,
    Failed(ExpressionFailure),
}

/// Why an expression said neither true nor false. Never holds a value of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpressionFailure {
    /// Something that it reads is not there.
    Absent,
    /// It cannot do what it does with values of these types.
    OtherType,
    /// It says something else than true or false.
    NoTruth,
    /// It divides by zero.
    DividesByZero,
    /// A number became too large.
    Overflow,
}

impl ExpressionFailure {
    pub(super) fn of(error: &ExecutionError) -> Self {
        if matches!(
            error,
            ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)
        ) {
            Self::Absent
        } else if matches!(
            error,
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_)
        ) {
            Self::DividesByZero
        } else if matches!(error, ExecutionError::Overflow(..)) {
            Self::Overflow
        } else {
            Self::OtherType
        }
    }

    /// For operators; the rest of a sentence about the expression.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Absent => "it reads an argument that the tool does not have",
            Self::OtherType => "it cannot take values of the types that the schema lets through",
            Self::NoTruth => "it says neither true nor false",
            Self::DividesByZero => "it divides by zero",
            Self::Overflow => "a number in it becomes too large",
        }
    }
}
