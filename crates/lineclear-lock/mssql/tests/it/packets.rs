//! What a client says, taken apart: the mock reads batches, but not the parameters of statements.

use bytes::{Buf, Bytes, BytesMut};
use mssql_mock_tds::protocol::{PACKET_HEADER_SIZE, PacketHeader, PacketType, parse_sql_batch};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A whole message: the type of its packets, what they carry, and how they came.
pub(crate) struct Message {
    pub(crate) kind: PacketType,
    pub(crate) body: Bytes,
    pub(crate) raw: BytesMut,
}

/// The next message; none: the client has gone.
pub(crate) async fn next(stream: &mut TcpStream) -> Option<Message> {
    let (mut raw, mut body) = (BytesMut::new(), BytesMut::new());
    loop {
        let mut header = [0; PACKET_HEADER_SIZE];
        stream.read_exact(&mut header).await.ok()?;
        raw.extend_from_slice(&header);
        let header = PacketHeader::parse(&mut header.as_slice()).unwrap();
        let mut part = vec![0; usize::from(header.length) - PACKET_HEADER_SIZE];
        stream.read_exact(&mut part).await.ok()?;
        raw.extend_from_slice(&part);
        body.extend_from_slice(&part);
        if header.status.is_end_of_message() {
            return Some(Message { kind: header.packet_type, body: body.freeze(), raw });
        }
    }
}

/// A statement and its parameters, as bytes; none: null.
pub(crate) struct Statement {
    pub(crate) text: String,
    params: Vec<Option<Bytes>>,
}

impl Statement {
    /// The name that its first line gives it.
    pub(crate) fn name(&self) -> &str {
        self.text.strip_prefix("-- ").and_then(|rest| rest.split(' ').next()).unwrap_or(&self.text)
    }

    pub(crate) fn bytes(&self, no: usize) -> Vec<u8> {
        self.params[no - 1].as_ref().expect("it is not null").to_vec()
    }

    pub(crate) fn text(&self, no: usize) -> Option<String> {
        self.params[no - 1].clone().map(utf16)
    }

    pub(crate) fn number(&self, no: usize) -> i64 {
        self.maybe_number(no).expect("it is not null")
    }

    pub(crate) fn maybe_number(&self, no: usize) -> Option<i64> {
        self.params[no - 1].clone().map(|mut bytes| bytes.get_i64_le())
    }

    pub(crate) fn maybe_bytes(&self, no: usize) -> Option<Vec<u8>> {
        self.params[no - 1].as_ref().map(|bytes| bytes.to_vec())
    }
}

fn utf16(mut bytes: Bytes) -> String {
    let units: Vec<u16> = (0..bytes.len() / 2).map(|_| bytes.get_u16_le()).collect();
    String::from_utf16(&units).unwrap()
}

/// The statement of a batch, or of a call of `sp_executesql`.
pub(crate) fn statement(message: &Message) -> Statement {
    if message.kind == PacketType::SqlBatch {
        return Statement { text: parse_sql_batch(&message.body).unwrap(), params: Vec::new() };
    }
    let mut rest = message.body.clone();
    // Headers; then the number of the procedure, and flags.
    let headers = rest.get_u32_le() as usize;
    rest.advance(headers - 4);
    assert_eq!((rest.get_u16_le(), rest.get_u16_le(), rest.get_u16_le()), (0xffff, 10, 0), "sp_executesql");
    let mut values = Vec::new();
    while rest.has_remaining() {
        let name = usize::from(rest.get_u8());
        rest.advance(name * 2 + 1);
        values.push(value(&mut rest));
    }
    // The text, and the types of the parameters, come first.
    let params = values.split_off(2);
    Statement { text: utf16(values[0].clone().unwrap()), params }
}

fn value(rest: &mut Bytes) -> Option<Bytes> {
    let kind = rest.get_u8();
    match kind {
        0x1f => None,
        0x26 => {
            rest.advance(1);
            let length = usize::from(rest.get_u8());
            (length > 0).then(|| rest.split_to(length))
        }
        0xe7 | 0xa5 => {
            let long = rest.get_u16_le() == 0xffff;
            rest.advance(if kind == 0xe7 { 5 } else { 0 });
            if long { parts(rest) } else { short(rest) }
        }
        other => panic!("a parameter of type {other:#x}"),
    }
}

fn short(rest: &mut Bytes) -> Option<Bytes> {
    let length = rest.get_u16_le();
    (length != 0xffff).then(|| rest.split_to(usize::from(length)))
}

fn parts(rest: &mut Bytes) -> Option<Bytes> {
    if rest.get_u64_le() == u64::MAX {
        return None;
    }
    let mut whole = BytesMut::new();
    loop {
        let length = rest.get_u32_le() as usize;
        if length == 0 {
            return Some(whole.freeze());
        }
        whole.extend_from_slice(&rest.split_to(length));
    }
}
