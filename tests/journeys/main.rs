//! The built program, as its README says.
