//! Callbacks by connections of clients.

use super::*;
use crate::net::callbacks::loop_of;
use crate::net::mailbox::Message;

#[test]
fn callbacks_use_the_named_connection() {
    let harness = Harness::new(2);
    let mut clients: Vec<Client> = (0..4).map(|_| harness.client()).collect();
    for (xid, client) in (0..).zip(&mut clients) {
        client.send(xid, ECHO, 1);
        assert_eq!(client.reply(), (xid, 1, 0));
    }
    let ids = harness.fake.connections.lock().clone();
    for (number, (id, client)) in (100..).zip(ids.iter().zip(&mut clients)) {
        let mailbox = &harness.loops.mailboxes[loop_of(*id, 2)];
        mailbox.send(Message::Send(*id, number, call(u32::try_from(number).unwrap(), 0, 0, 0)));
        let (xid, direction, _) = client.reply();
        assert_eq!((u64::from(xid), direction), (number, 0), "the call itself");
    }
    drop(clients);
    harness.wait_until("closing", |harness| harness.fake.closed.lock().len() == 4);
    let mailbox = &harness.loops.mailboxes[loop_of(ids[0], 2)];
    mailbox.send(Message::Send(ids[0], 7, call(7, 0, 0, 0)));
    harness.wait_until("failing", |harness| *harness.fake.unsent.lock() == [7]);
    harness.loops.stop();
}
