//! The kinds of I/O error that a rule can name.

use std::io::ErrorKind;

crate::class::vocabulary! {
    /// The kind of an I/O error, under a name that can stand in a configuration file.
    IoKind as "kind of I/O error",
    expected "connection_refused, connection_reset, connection_aborted, not_connected, broken_pipe, host_unreachable, \
              network_unreachable, network_down, timed_out, would_block, interrupted, unexpected_eof, storage_full, \
              quota_exceeded, out_of_memory, resource_busy, deadlock, not_found, permission_denied, already_exists, \
              invalid_input, invalid_data, file_too_large, unsupported, other" {
        /// Nobody listens there.
        ConnectionRefused = "connection_refused",
        /// The peer cut the connection.
        ConnectionReset = "connection_reset",
        /// The connection was given up.
        ConnectionAborted = "connection_aborted",
        /// There is no connection.
        NotConnected = "not_connected",
        /// The reading side is gone.
        BrokenPipe = "broken_pipe",
        /// No way to the host.
        HostUnreachable = "host_unreachable",
        /// No way to its network.
        NetworkUnreachable = "network_unreachable",
        /// The network is down.
        NetworkDown = "network_down",
        /// It took too long.
        TimedOut = "timed_out",
        /// It would have to wait.
        WouldBlock = "would_block",
        /// A signal came between.
        Interrupted = "interrupted",
        /// The input ended too early.
        UnexpectedEof = "unexpected_eof",
        /// The disk is full.
        StorageFull = "storage_full",
        /// A quota is used up.
        QuotaExceeded = "quota_exceeded",
        /// No memory is left.
        OutOfMemory = "out_of_memory",
        /// Another uses the resource.
        ResourceBusy = "resource_busy",
        /// Waiting would never end.
        Deadlock = "deadlock",
        /// There is no such thing.
        NotFound = "not_found",
        /// A right is missing.
        PermissionDenied = "permission_denied",
        /// It is there already.
        AlreadyExists = "already_exists",
        /// A parameter is wrong.
        InvalidInput = "invalid_input",
        /// The data is wrong.
        InvalidData = "invalid_data",
        /// The file is too large.
        FileTooLarge = "file_too_large",
        /// Not supported here.
        Unsupported = "unsupported",
        /// Any other kind.
        Other = "other",
    }
}

impl From<ErrorKind> for IoKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            ErrorKind::ConnectionReset => Self::ConnectionReset,
            ErrorKind::ConnectionAborted => Self::ConnectionAborted,
            ErrorKind::NotConnected => Self::NotConnected,
            ErrorKind::BrokenPipe => Self::BrokenPipe,
            ErrorKind::HostUnreachable => Self::HostUnreachable,
            ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
            ErrorKind::NetworkDown => Self::NetworkDown,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::WouldBlock => Self::WouldBlock,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::UnexpectedEof => Self::UnexpectedEof,
            ErrorKind::StorageFull => Self::StorageFull,
            ErrorKind::QuotaExceeded => Self::QuotaExceeded,
            ErrorKind::OutOfMemory => Self::OutOfMemory,
            ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => Self::ResourceBusy,
            ErrorKind::Deadlock => Self::Deadlock,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::PermissionDenied,
            ErrorKind::AlreadyExists => Self::AlreadyExists,
            ErrorKind::InvalidInput => Self::InvalidInput,
            ErrorKind::InvalidData => Self::InvalidData,
            ErrorKind::FileTooLarge => Self::FileTooLarge,
            ErrorKind::Unsupported => Self::Unsupported,
            _ => Self::Other,
        }
    }
}
