//! The results of a COMPOUND.

use wire::limits::{COMPOUND_OPS_MAX, DATA_BYTES_MAX};
use wire::nfs3::StableHow;
use wire::nfs4::{
    AccessOk, AttrMask, Attributes4, CloseOk, CommitOk, CreateOk, GetattrOk, GetfhOk, NfsStat4, OpNum4,
    OpenOk, ReaddirOk, RemoveOk, SequenceOk, StableHow4, Utf8Str4, WriteOk,
};
use wire::xdr::{Decode, DecodeError, Decoder, padding};

use crate::client::Handle;
use crate::client::cause::{Cause, Status};
use crate::client::reply::{Found, Listed, Opened, Plain, ReadHead, Sizes, Written};
use crate::client::request::File;

/// The results of the operations that are not decoded yet.
#[derive(Clone, Debug)]
pub(crate) struct Results<'r> {
    /// The status of the COMPOUND.
    status: NfsStat4,
    left: usize,
    input: Decoder<'r>,
    /// The number of dropped bytes.
    cut: usize,
}

/// The size of an object, from the attributes of a GETATTR.
fn size(attributes: &GetattrOk<'_>) -> Result<Option<u64>, Cause> {
    values(attributes).map(|values| values.size)
}

fn values<'r>(attributes: &GetattrOk<'r>) -> Result<Attributes4<'r>, Cause> {
    let malformed = |_| Cause::Wrong("GETATTR: attributes that were not requested, or malformed ones");
    attributes.obj_attributes.decode_values().map_err(malformed)
}

impl<'r> Results<'r> {
    /// Decodes the header before the results. `cut` bytes were dropped after `results`.
    pub(crate) fn new(results: &'r [u8], cut: usize) -> Result<Self, Cause> {
        let mut input = Decoder::new(results);
        let mut header = || -> Result<(NfsStat4, usize), DecodeError> {
            let status = NfsStat4::decode(&mut input)?;
            Utf8Str4::decode(&mut input)?;
            Ok((status, input.length(COMPOUND_OPS_MAX as usize)?))
        };
        let (status, left) = header().map_err(|error| Cause::Malformed("COMPOUND", error))?;
        Ok(Self { status, left, input, cut })
    }

    /// Returns the results of a COMPOUND after that of SEQUENCE.
    pub(crate) fn after_sequence(results: &'r [u8]) -> Result<Self, Cause> {
        let mut this = Self::new(results, 0)?;
        this.next::<SequenceOk>(OpNum4::Sequence)?;
        Ok(this)
    }

    /// Whether the server asks for the call to be made again later.
    pub(crate) const fn is_delayed(&self) -> bool {
        matches!(self.status, NfsStat4::Delay | NfsStat4::Grace)
    }

    /// Decodes the body of the next result, which must be of this operation.
    #[inline]
    pub(crate) fn next<T: Decode<'r>>(&mut self, num: OpNum4) -> Result<T, Cause> {
        self.begin(num)?;
        T::decode(&mut self.input).map_err(|error| Cause::Malformed(num.name(), error))
    }

    /// Decodes the next result up to its body. An operation that failed is an error.
    #[inline]
    fn begin(&mut self, num: OpNum4) -> Result<(), Cause> {
        let malformed = |error| Cause::Malformed(num.name(), error);
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None if self.status == NfsStat4::Ok => {
                return Err(Cause::Wrong("COMPOUND: fewer results than operations"));
            }
            None => return Err(Cause::Status(num.name(), Status::V4(self.status))),
        };
        if self.input.u32().map_err(malformed)? != num.code() {
            return Err(Cause::Wrong("COMPOUND: the results of other operations"));
        }
        match NfsStat4::decode(&mut self.input).map_err(malformed)? {
            NfsStat4::Ok => Ok(()),
            status if status == self.status => Err(Cause::Status(num.name(), Status::V4(status))),
            _ => Err(Cause::Wrong("COMPOUND: a status other than that of the last operation")),
        }
    }

    /// Checks that nothing follows.
    #[inline]
    pub(crate) fn finish(&self) -> Result<(), Cause> {
        if self.left > 0 || self.status != NfsStat4::Ok {
            return Err(Cause::Wrong("COMPOUND: more results than operations, or another status"));
        }
        match self.input.rest().len() + self.cut {
            0 => Ok(()),
            trailing => Err(Cause::Malformed("COMPOUND", DecodeError::Trailing(trailing))),
        }
    }

    /// Decodes a result without a body and then the last one.
    fn last<T: Decode<'r>>(mut self, num: OpNum4) -> Result<T, Cause> {
        let last = self.next(num)?;
        self.finish()?;
        Ok(last)
    }

    fn putfh(&mut self) -> Result<(), Cause> {
        self.next::<()>(OpNum4::Putfh)
    }

    fn getfh(&mut self) -> Result<Handle, Cause> {
        self.next::<GetfhOk<'_>>(OpNum4::Getfh).map(|ok| Handle::of(ok.object.as_bytes()))
    }

    fn getattr(self) -> Result<GetattrOk<'r>, Cause> {
        self.last(OpNum4::Getattr)
    }

    pub(in crate::client) fn plain(mut self, call: Plain) -> Result<(), Cause> {
        if call == Plain::Null {
            return self.finish();
        }
        self.putfh()?;
        match call {
            Plain::Null | Plain::Getattr => self.getattr().map(|_| ()),
            Plain::Access => {
                self.next::<AccessOk>(OpNum4::Access)?;
                self.getattr().map(|_| ())
            }
            Plain::SetModeAndTime => {
                // The attributes that were set follow its status also if it failed.
                self.next::<AttrMask>(OpNum4::Setattr)?;
                self.getattr().map(|_| ())
            }
            Plain::Remove | Plain::Rmdir => self.last::<RemoveOk>(OpNum4::Remove).map(|_| ()),
            Plain::Close => {
                self.next::<GetattrOk<'_>>(OpNum4::Getattr)?;
                self.last::<CloseOk>(OpNum4::Close).map(|_| ())
            }
        }
    }

    pub(in crate::client) fn found(mut self) -> Result<Found, Cause> {
        self.putfh()?;
        self.next::<()>(OpNum4::Lookup)?;
        let handle = self.getfh()?;
        Ok(Found { handle, size: size(&self.getattr()?)? })
    }

    pub(in crate::client) fn made(mut self) -> Result<Option<Handle>, Cause> {
        self.putfh()?;
        self.next::<CreateOk>(OpNum4::Create)?;
        let handle = self.getfh()?;
        self.getattr()?;
        Ok(Some(handle))
    }

    pub(in crate::client) fn created(self) -> Result<Opened, Cause> {
        self.opened()
    }

    pub(in crate::client) fn opened(mut self) -> Result<Opened, Cause> {
        self.putfh()?;
        let open = self.next::<OpenOk<'_>>(OpNum4::Open)?;
        let handle = self.getfh()?;
        self.next::<AccessOk>(OpNum4::Access)?;
        let size = size(&self.getattr()?)?;
        Ok(Opened { file: Some(File { handle, stateid: open.stateid }), size })
    }

    #[inline]
    pub(in crate::client) fn read(mut self) -> Result<ReadHead<'r>, Cause> {
        self.putfh()?;
        self.begin(OpNum4::Read)?;
        let malformed = |error| Cause::Malformed(OpNum4::Read.name(), error);
        let eof = self.input.bool().map_err(malformed)?;
        let length = self.input.length(DATA_BYTES_MAX).map_err(malformed)?;
        let data = self.input.rest();
        if data.len() + self.cut != length + padding(length) || self.left > 0 {
            return Err(Cause::Wrong("READ: length of the data and length of the reply differ"));
        }
        Ok(ReadHead { count: u32::try_from(length).unwrap_or(u32::MAX), eof, data })
    }

    #[inline]
    pub(in crate::client) fn written(mut self) -> Result<Written, Cause> {
        self.putfh()?;
        let written = self.next::<WriteOk>(OpNum4::Write)?;
        self.getattr()?;
        let committed = match written.committed {
            StableHow4::Unstable => StableHow::Unstable,
            StableHow4::DataSync => StableHow::DataSync,
            StableHow4::FileSync => StableHow::FileSync,
        };
        Ok(Written { count: written.count, committed, verifier: written.writeverf })
    }

    pub(in crate::client) fn committed(mut self) -> Result<[u8; 8], Cause> {
        self.putfh()?;
        self.last::<CommitOk>(OpNum4::Commit).map(|ok| ok.writeverf)
    }

    pub(in crate::client) fn listed(
        mut self,
        _: bool,
        entry: &mut dyn FnMut(u64, &'r [u8]),
    ) -> Result<Listed, Cause> {
        self.putfh()?;
        let listed = self.last::<ReaddirOk<'r>>(OpNum4::Readdir)?;
        listed.entries.iter().for_each(|it| entry(it.cookie, it.name.0));
        Ok(Listed { verifier: listed.cookieverf, eof: listed.eof })
    }

    pub(in crate::client) fn sizes(mut self) -> Result<Sizes, Cause> {
        self.putfh()?;
        let values = values(&self.getattr()?)?;
        let missing = Cause::Wrong("GETATTR: no transfer sizes");
        let (Some(read_bytes), Some(write_bytes)) = (values.maxread, values.maxwrite) else {
            return Err(missing);
        };
        Ok(Sizes { read_bytes, write_bytes })
    }

    pub(in crate::client) fn space(mut self) -> Result<u64, Cause> {
        self.putfh()?;
        // Servers without such a figure report none.
        Ok(values(&self.getattr()?)?.space_avail.unwrap_or(0))
    }
}
