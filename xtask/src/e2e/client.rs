//! Clients that make single calls of NFSv3, NFSv4, MOUNT, NLM and NSM, from any address of the namespace and as any user. They have
//! a codec of their own, so that they do not share mistakes with Holdfast's.

pub(super) mod compound;
pub(super) mod cursor;
pub(super) mod nfs3;
pub(super) mod nfs4;
pub(super) mod places;
pub(super) mod rpc;
