//! The objects of a namespace of a Ceph pool.

use std::io;

use crate::librados::Pool;
use crate::objects::{Done, Objects, Piece, Step};

impl Objects for Pool {
    fn change(&self, object: &str, steps: &[Step<'_>], done: Done) {
        Pool::change(self, object, steps, done);
    }

    fn read(&self, pieces: &mut [Piece<'_>]) {
        Pool::read(self, pieces);
    }

    fn length(&self, object: &str) -> io::Result<u64> {
        Pool::length(self, object)
    }

    fn pairs(&self, object: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        match Pool::pairs(self, object) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            result => result,
        }
    }
}
