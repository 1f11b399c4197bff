//! REMOVE, RMDIR, RENAME and LINK (RFC 1813 sections 3.3.12 to 3.3.15).

use super::{DirOpArgs3, FileHandle3, PostOpAttr, Res3, WccData};

xdr! {
    /// The arguments of REMOVE (RFC 1813 section 3.3.12).
    pub struct RemoveArgs<'a> {
        /// The name to remove.
        pub object: DirOpArgs3<'a>,
    }

    /// REMOVE or RMDIR succeeded.
    pub struct RemoveOk {
        /// The directory before and after.
        pub dir_wcc: WccData,
    }

    /// The result of REMOVE. A failure has the directory before and after.
    pub type RemoveRes = Res3<RemoveOk, WccData>;

    /// The arguments of RMDIR (RFC 1813 section 3.3.13).
    pub struct RmdirArgs<'a> {
        /// The name to remove.
        pub object: DirOpArgs3<'a>,
    }

    /// The result of RMDIR.
    pub type RmdirRes = RemoveRes;

    /// The arguments of RENAME (RFC 1813 section 3.3.14).
    pub struct RenameArgs<'a> {
        /// The old name.
        pub from: DirOpArgs3<'a>,
        /// The new name.
        pub to: DirOpArgs3<'a>,
    }

    /// RENAME succeeded.
    pub struct RenameOk {
        /// The old directory before and after.
        pub fromdir_wcc: WccData,
        /// The new directory before and after.
        pub todir_wcc: WccData,
    }

    /// RENAME failed.
    pub struct RenameFail {
        /// The old directory before and after.
        pub fromdir_wcc: WccData,
        /// The new directory before and after.
        pub todir_wcc: WccData,
    }

    /// The result of RENAME.
    pub type RenameRes = Res3<RenameOk, RenameFail>;

    /// The arguments of LINK (RFC 1813 section 3.3.15).
    pub struct LinkArgs<'a> {
        /// The existing object.
        pub file: FileHandle3<'a>,
        /// Its new name.
        pub link: DirOpArgs3<'a>,
    }

    /// LINK succeeded.
    pub struct LinkOk {
        /// The attributes of the object.
        pub file_attributes: PostOpAttr,
        /// The directory before and after.
        pub linkdir_wcc: WccData,
    }

    /// LINK failed.
    pub struct LinkFail {
        /// The attributes of the object.
        pub file_attributes: PostOpAttr,
        /// The directory before and after.
        pub linkdir_wcc: WccData,
    }
}

/// The result of LINK.
pub type LinkRes = Res3<LinkOk, LinkFail>;
