//! Reading from a server without waiting for it: what has come already, and no more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// Whether reads of one agent's connection wait for input. Clones are about the same connection.
#[derive(Debug, Default, Clone)]
pub(super) struct Patience {
    none: Arc<AtomicBool>,
}

impl Patience {
    /// Runs a read that ends with [`io::ErrorKind::WouldBlock`] instead of waiting; it can be repeated then.
    pub(super) fn without<T>(&self, read: impl FnOnce() -> T) -> T {
        self.none.store(true, Ordering::SeqCst);
        let result = read();
        self.none.store(false, Ordering::SeqCst);
        result
    }
}

/// The last link of the chain that makes a connection.
impl<In: Transport> Connector<In> for Patience {
    type Out = Patient<In>;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|transport| Patient { transport, patience: self.clone() }))
    }
}

/// A connection that can be read from without waiting.
#[derive(Debug)]
pub(super) struct Patient<In> {
    transport: In,
    patience: Patience,
}

impl<In: Transport> Transport for Patient<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.transport.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        if self.patience.none.load(Ordering::SeqCst) {
            return Err(Error::Io(io::ErrorKind::WouldBlock.into()));
        }
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}
