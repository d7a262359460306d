//! What can be said of a message that the strict reader refuses: whose answer or question it is,
//! when nothing of its envelope is in doubt. What it says is nobody's to read.

const JSONRPC_VERSION: &[u8] = br#""2.0""#;

/// The id, as it is written, of an object that every parser reads as a JSON-RPC answer: the members
/// of the envelope stand in it once and in plain letters, none looks like one of them, and the
/// object has its end.
pub(crate) fn answered(text: &[u8]) -> Option<&[u8]> {
    let envelope = Envelope::read(text)?;
    let is_answer =
        envelope.result.is_some() != envelope.error.is_some() && envelope.method.is_none();
    is_answer.then_some(envelope.id?)
}

/// The id, as it is written, of an object that asks for something, whatever is wrong with it: it
/// has one `id` in plain letters up to where it can be read, none looks like one, and it is no
/// answer.
pub(crate) fn asked(text: &[u8]) -> Option<&[u8]> {
    let mut reader = EnvelopeReader { text, at: 0 };
    let (mut id, mut is_answer, mut is_request) = (None, false, false);
    reader.takes(b'{')?;
    while let Some((key, value)) = reader.member() {
        match key {
            b"id" if id.is_none() => id = Some(value),
            b"id" => return None,
            b"result" | b"error" => is_answer = true,
            b"method" => is_request = true,
            other if other.eq_ignore_ascii_case(b"id") || other.contains(&b'\\') => return None,
            _ => {}
        }
        if reader.next() != Some(b',') {
            break;
        }
    }
    id.filter(|_| is_request || !is_answer)
}

/// The members of a message of JSON-RPC 2.0 as they are written.
#[derive(Default)]
struct Envelope<'t> {
    id: Option<&'t [u8]>,
    method: Option<&'t [u8]>,
    params: Option<&'t [u8]>,
    result: Option<&'t [u8]>,
    error: Option<&'t [u8]>,
}

impl<'t> Envelope<'t> {
    /// None where two parsers may see two messages, or one sees none.
    fn read(text: &'t [u8]) -> Option<Self> {
        let mut reader = EnvelopeReader { text, at: 0 };
        let (mut envelope, mut version) = (Self::default(), None);
        reader.takes(b'{')?;
        loop {
            let (key, value) = reader.member()?;
            let place = match key {
                b"jsonrpc" => &mut version,
                b"id" => &mut envelope.id,
                b"method" => &mut envelope.method,
                b"params" => &mut envelope.params,
                b"result" => &mut envelope.result,
                b"error" => &mut envelope.error,
                other => {
                    let is_plain = other
                        .iter()
                        .all(|byte| byte.is_ascii_graphic() && *byte != b'\\');
                    let known = ["jsonrpc", "id", "result", "error", "method", "params"];
                    if !is_plain
                        || known
                            .iter()
                            .any(|known| other.eq_ignore_ascii_case(known.as_bytes()))
                    {
                        return None;
                    }
                    &mut None
                }
            };
            if place.replace(value).is_some() {
                return None;
            }
            match reader.next()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        (reader.next().is_none() && version? == JSONRPC_VERSION).then_some(envelope)
    }
}

/// Reads as little as tells where a value ends.
struct EnvelopeReader<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> EnvelopeReader<'t> {
    /// The next byte that is no white space, taken.
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        let space = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
            .count();
        self.at += space + 1;
        rest.get(space).copied()
    }

    fn takes(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// A member: its name as it is written, without quotes, and its value.
    fn member(&mut self) -> Option<(&'t [u8], &'t [u8])> {
        let key = self.string()?;
        self.takes(b':')?;
        Some((&key[1..key.len() - 1], self.value()?))
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'t [u8]> {
        self.takes(b'"')?;
        self.rest_of_string(self.at - 1)
    }

    fn rest_of_string(&mut self, start: usize) -> Option<&'t [u8]> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return Some(&self.text[start..self.at]),
                b'\\' => self.at += 1,
                _ => {}
            }
        }
    }

    /// A value, with all that is in it.
    fn value(&mut self) -> Option<&'t [u8]> {
        let first = self.next()?;
        let start = self.at - 1;
        match first {
            b'"' => return self.rest_of_string(start),
            b'{' | b'[' => {}
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let more = self.text[self.at..].iter().take_while(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
                });
                self.at += more.count();
                return Some(&self.text[start..self.at]);
            }
            _ => return None,
        }
        let mut open = vec![first];
        while let Some(last) = open.last() {
            match self.next()? {
                b'"' => drop(self.rest_of_string(self.at)?),
                bracket @ (b'{' | b'[') => open.push(bracket),
                // Closing ones come two after opening ones in ASCII.
                bracket @ (b'}' | b']') if *last + 2 == bracket => drop(open.pop()),
                b'}' | b']' => return None,
                _ => {}
            }
        }
        Some(&self.text[start..self.at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// guarantees §4: whatever is wrong in the result, and nothing that is in doubt.
    #[test]
    fn only_what_is_beyond_doubt_is_an_answer() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{}1{}}}"#,
            "[".repeat(9999),
            "]".repeat(9999)
        );
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}"#,
            r#" { "result" : {"x":"\ud800"}, "id" : 7 , "jsonrpc" : "2.0" , "extra": [1e999] } "#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"}":"]\"}"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"a":1,"a":2}}"#,
            &deep,
        ] {
            assert_eq!(answered(text.as_bytes()), Some(&b"7"[..]), "{text:.80}");
        }
        assert_eq!(
            answered(b"{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":\"\xff\"}"),
            Some(&b"\"7\""[..])
        );
        for text in [
            "",
            "{}",
            r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"ID":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"\u0069d":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"Method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{},"error":{}}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
            r#"{"id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1}]}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}} {}"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
        ] {
            assert_eq!(answered(text.as_bytes()), None, "{text}");
        }
    }

    /// No agent waits for an answer that has come under no id.
    #[test]
    fn a_question_has_its_id_where_it_can_be_read() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":1,"a":2}}"#,
            r#"{"method":"x","id":7,"params":{"n":1e999},"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"\ud800"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"x","method":"y"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":1}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"x","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":1"#,
            r#"{"id":7,"params":{"a":1,}}"#,
        ] {
            assert_eq!(asked(text.as_bytes()), Some(&b"7"[..]), "{text}");
        }
        for text in [
            "",
            r#"[{"jsonrpc":"2.0","id":7,"method":"x"}]"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"a":1,"a":2}}"#,
            r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":7,"Id":8,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":7,"\u0069d":8,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"a":1,"id":7"#,
        ] {
            assert_eq!(asked(text.as_bytes()), None, "{text}");
        }
    }
}
