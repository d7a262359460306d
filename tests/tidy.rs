#[test]
fn ok() {}
