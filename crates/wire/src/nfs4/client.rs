//! Clients and their leases in NFSv4.0: SETCLIENTID, SETCLIENTID_CONFIRM, RENEW.

use super::{ClientId4, Netaddr4, NfsStat4, OwnerId4, Verifier4};

xdr! {
    /// A client (RFC 7530 section 9.1.1, nfs_client_id4).
    pub struct NfsClientId4<'a> {
        /// Changes when the client restarts.
        pub verifier: Verifier4,
        /// The client's name for itself.
        pub id: OwnerId4<'a>,
    }

    /// The address of a callback program (RFC 7530 section 2.2.11, cb_client4).
    pub struct CbClient4<'a> {
        /// The program number.
        pub cb_program: u32,
        /// The address.
        pub cb_location: Netaddr4<'a>,
    }

    /// The arguments of SETCLIENTID (RFC 7530 section 16.33).
    pub struct SetClientIdArgs<'a> {
        /// The client.
        pub client: NfsClientId4<'a>,
        /// The address of its callback program.
        pub callback: CbClient4<'a>,
        /// The identifier to send with each callback.
        pub callback_ident: u32,
    }

    /// SETCLIENTID succeeded.
    pub struct SetClientIdOk {
        /// The id of the client.
        pub clientid: ClientId4,
        /// The verifier to send with SETCLIENTID_CONFIRM.
        pub setclientid_confirm: Verifier4,
    }
}

xdr_failure! {
    /// SETCLIENTID failed.
    pub enum SetClientIdFail<'a> {
        /// Another principal uses the client id string, from this address.
        ClientUsing(Netaddr4<'a>) = ClidInUse
    }
}

xdr! {
    /// The arguments of SETCLIENTID_CONFIRM (RFC 7530 section 16.34).
    pub struct SetClientIdConfirmArgs {
        /// The id of the client.
        pub clientid: ClientId4,
        /// The verifier that SETCLIENTID returned.
        pub setclientid_confirm: Verifier4,
    }

    /// The arguments of RENEW (RFC 7530 section 16.29).
    pub struct RenewArgs {
        /// The client whose lease is renewed.
        pub clientid: ClientId4,
    }
}
