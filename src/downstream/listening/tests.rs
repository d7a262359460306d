//! Sockets among the files of the machine: whose they are, and who may come in.

use super::*;
use tokio::io::AsyncReadExt as _;

fn access(mode: u32) -> SocketAccess {
    SocketAccess {
        mode,
        uids: Vec::new(),
        gids: Vec::new(),
    }
}

fn at(directory: &tempfile::TempDir) -> ListenAddress {
    let path = directory.path().join("door.sock");
    ListenAddress::Unix(SocketPath::new(&path).unwrap())
}

fn path(address: ListenAddress) -> PathBuf {
    match address {
        ListenAddress::Unix(socket) => socket.path().to_owned(),
        ListenAddress::Tcp(address) => panic!("{address} is no socket"),
    }
}

/// The file of a socket has the mode that is configured, and goes with its listener.
#[tokio::test]
async fn a_socket_has_its_mode_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let address = at(&directory);
    let door = DoorListener::bind(address, &access(0o640)).unwrap();
    let mode = fs::metadata(path(address)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(door.address().unwrap(), address);
    drop(door);
    assert!(!path(address).exists());
}

/// While another toolgate opens a socket in the same directory, what looks left behind may be its own,
/// which does not listen yet.
#[tokio::test]
async fn two_toolgates_do_not_open_sockets_in_one_place_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let address = at(&directory);
    drop(std::os::unix::net::UnixListener::bind(path(address)).unwrap());
    let other = lock_place(directory.path()).unwrap();
    let refused = DoorListener::bind(address, &access(0o600)).err();
    assert_eq!(
        refused.map(|error| error.kind()),
        Some(io::ErrorKind::AddrInUse)
    );
    assert!(
        path(address).exists(),
        "what the other may have bound stays"
    );
    drop(other);
    DoorListener::bind(address, &access(0o600)).unwrap();
}

/// What a killed process left behind is taken away; a door that is open, and what is no socket, stay.
#[tokio::test]
async fn only_a_socket_that_nobody_listens_on_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let address = at(&directory);
    // Dropping a listener of the standard library leaves its file there.
    drop(std::os::unix::net::UnixListener::bind(path(address)).unwrap());
    let door = DoorListener::bind(address, &access(0o600)).unwrap();
    let second = DoorListener::bind(address, &access(0o600));
    let refused = second.err().map(|error| error.kind());
    assert_eq!(refused, Some(io::ErrorKind::AddrInUse));
    assert!(path(address).exists(), "the first goes on");
    drop(door);
    fs::write(path(address), "kept").unwrap();
    let refused = DoorListener::bind(address, &access(0o600)).err();
    assert_eq!(
        refused.map(|error| error.kind()),
        Some(io::ErrorKind::AlreadyExists)
    );
    assert_eq!(fs::read_to_string(path(address)).unwrap(), "kept");
}

/// threat-model §10: in a directory such as `/tmp` any account can put a socket there, listen, and let nobody in. A start
/// waits for none of that.
#[tokio::test]
async fn a_full_socket_of_another_is_no_place_to_wait() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let directory = tempfile::tempdir().unwrap();
    let address = at(&directory);
    let place = SocketAddrUnix::new(path(address)).unwrap();
    let socket = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    };
    let listener = socket();
    rustix::net::bind(&listener, &place).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let waiting: Vec<_> = std::iter::repeat_with(|| {
        let one = socket();
        rustix::net::connect(&one, &place).map(|()| one)
    })
    .take(64)
    .collect();
    let last = waiting.last().and_then(|one| one.as_ref().err());
    assert_eq!(last, Some(&rustix::io::Errno::AGAIN), "its queue is full");
    let refused = DoorListener::bind(address, &access(0o600)).err();
    assert_eq!(
        refused.map(|error| error.kind()),
        Some(io::ErrorKind::AddrInUse)
    );
    drop(waiting);
}

/// A socket that another process has put in its place is not ours to remove.
#[tokio::test]
async fn the_socket_of_a_successor_stays() {
    let directory = tempfile::tempdir().unwrap();
    let address = at(&directory);
    let door = DoorListener::bind(address, &access(0o600)).unwrap();
    fs::remove_file(path(address)).unwrap();
    let successor = DoorListener::bind(address, &access(0o600)).unwrap();
    drop(door);
    assert!(path(address).exists());
    drop(successor);
    assert!(!path(address).exists());
}

/// Issue 20 "peer check": an account that is not named reads why, and nothing else.
#[tokio::test]
async fn an_account_that_is_not_named_is_answered_403() {
    let own = rustix::process::geteuid().as_raw();
    for (uids, is_admitted) in [(vec![], true), (vec![own], true), (vec![own + 1], false)] {
        let directory = tempfile::tempdir().unwrap();
        let address = at(&directory);
        let named = SocketAccess {
            uids: uids.clone(),
            ..access(0o600)
        };
        let door = DoorListener::bind(address, &named).unwrap();
        let (peer, accepted) = tokio::join!(UnixStream::connect(path(address)), door.accept());
        let newcomer = accepted.unwrap();
        assert_eq!(newcomer.is_some(), is_admitted, "{uids:?}");
        if newcomer.is_none() {
            let mut told = String::new();
            peer.unwrap().read_to_string(&mut told).await.unwrap();
            let (head, body) = told.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 403 "), "{told}");
            assert!(
                head.contains(&format!("Content-Length: {}", body.len())),
                "{told}"
            );
        }
    }
}

#[test]
fn accounts_and_groups_are_told_apart() {
    let named = SocketAccess {
        uids: vec![1_000],
        gids: vec![2_000],
        ..access(0o660)
    };
    for (uid, gid, is_admitted) in [
        (1_000, 1, true),
        (1, 2_000, true),
        (2_000, 1_000, false),
        (0, 0, false),
    ] {
        assert_eq!(named.admits(uid, gid), is_admitted, "{uid} {gid}");
    }
    assert_ne!(
        account_address(1),
        account_address(2),
        "each is counted alone"
    );
}
