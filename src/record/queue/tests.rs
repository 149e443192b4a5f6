use super::*;
use std::sync::Arc;
use std::thread;

fn queue() -> Queue {
    Queue::new(Instant::now())
}

fn push(queue: &Queue, from: From, line: &str) -> Pushed {
    let whole = format!("{line}\n");
    queue.push(Parcel { from, carried: None, torn: false, whole: whole.as_bytes(), count: 1 })
}

fn push_own(queue: &Queue, line: Vec<u8>, torn: bool) -> Pushed {
    queue.push(Parcel { from: From::Server, carried: Some(line), torn, whole: b"", count: 1 })
}

fn drain(queue: &Queue) -> Vec<(From, Vec<u8>, bool)> {
    let mut found = Vec::new();
    let mut block = Block::default();
    let mut last = Duration::ZERO;
    loop {
        match queue.next(block) {
            Next::Batch(next) => block = next,
            Next::Nothing => return found,
            Next::Closed => panic!("not closed"),
        }
        for message in block.messages() {
            assert!(message.at >= last);
            last = message.at;
            found.push((message.from, message.line.to_vec(), message.torn));
        }
    }
}

#[test]
fn what_is_pushed_comes_out_in_order_and_whole() {
    let queue = queue();
    let giant = vec![b'g'; 3 << 20];
    push(&queue, From::Client, "one");
    queue.push(Parcel {
        from: From::Server,
        carried: Some(b"head\r".to_vec()),
        torn: false,
        whole: b"two\n\nthree\n",
        count: 4,
    });
    push_own(&queue, vec![b'o'; OWN_BLOCK], false);
    push(&queue, From::Client, "four");
    push_own(&queue, b"torn".to_vec(), true);
    queue.nudge();
    let expected: Vec<(From, Vec<u8>, bool)> = vec![
        (From::Client, b"one".to_vec(), false),
        (From::Server, b"head\r".to_vec(), false),
        (From::Server, b"two".to_vec(), false),
        (From::Server, b"".to_vec(), false),
        (From::Server, b"three".to_vec(), false),
        (From::Server, vec![b'o'; OWN_BLOCK], false),
        (From::Client, b"four".to_vec(), false),
        (From::Server, b"torn".to_vec(), true),
    ];
    assert_eq!(drain(&queue), expected);
    push_own(&queue, giant.clone(), false);
    queue.nudge();
    assert_eq!(drain(&queue), vec![(From::Server, giant, false)]);
    let state = queue.lock();
    assert_eq!(state.loads, Loads::default());
    assert!(state.spare.iter().all(|block| block.capacity() <= 2 * BLOCK_BYTES));
}

/// A queue with as many messages of the client as may wait, while a write goes on that began so long ago, or none does.
fn full(writing: Option<Duration>) -> Queue {
    let queue = queue();
    push(&queue, From::Client, "being written");
    let Next::Batch(_block) = queue.next(Block::default()) else { panic!("a batch") };
    for _ in 0..MESSAGES {
        push(&queue, From::Client, "waiting");
    }
    queue.lock().writing = writing.and_then(|age| Instant::now().checked_sub(age));
    queue
}

/// Whether a push has to wait.
fn waits(queue: &Queue, from: From) -> bool {
    queue.lock().pressed = false;
    push(queue, from, "one more");
    queue.lock().pressed
}

#[test]
fn how_long_a_push_waits() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    // A push that comes at 50 ms: when a write began, and until when it waits.
    for (behind, writing, until) in [
        // A recorder that prepares what it writes.
        (false, None, 150),
        (false, Some(0), 5),
        (false, Some(47), 52),
        (false, Some(50), 55),
        // A write that began while it waited.
        (false, Some(90), 95),
        (true, None, 55),
        (true, Some(90), 55),
    ] {
        let state = State { writing: writing.map(at), behind, ..State::default() };
        assert_eq!(state.patience(at(50)), at(until), "{behind} {writing:?}");
    }
}

#[test]
fn a_full_queue_holds_a_push_up_until_a_write_is_5_ms_old() {
    assert!(waits(&full(None), From::Client));
    assert!(!waits(&full(Some(PATIENCE)), From::Client));
}

#[test]
fn a_recorder_that_prepares_holds_a_full_queue_up_and_does_not_fall_behind() {
    let queue = Arc::new(queue());
    push(&queue, From::Client, "being prepared");
    let Next::Batch(block) = queue.next(Block::default()) else { panic!("a batch") };
    for _ in 0..MESSAGES {
        push(&queue, From::Client, "waiting");
    }
    let pump = Arc::clone(&queue);
    let begun = Instant::now();
    let held = thread::spawn(move || {
        push(&pump, From::Client, "one more");
        begun.elapsed()
    });
    thread::sleep(6 * PATIENCE);
    assert!(matches!(queue.next(block), Next::Batch(_)));
    assert!(held.join().unwrap() >= 6 * PATIENCE);
    assert!(!queue.lock().behind);
}

#[test]
fn behind_a_backlog_a_push_is_held_up_shortly_and_the_backlog_ends_that() {
    let queue = full(Some(PATIENCE));
    assert!(!waits(&queue, From::Client));
    assert!(queue.lock().behind);
    queue.lock().writing = None;
    assert!(waits(&queue, From::Client));
    queue.nudge();
    drain(&queue);
    assert!(!queue.lock().behind);
}

#[test]
fn one_direction_does_not_hold_up_the_other() {
    assert!(!waits(&full(None), From::Server));
}

#[test]
fn a_stalled_disk_holds_up_nothing_until_64_mib_wait() {
    let queue = Arc::new(queue());
    push(&queue, From::Client, "being written");
    let Next::Batch(block) = queue.next(Block::default()) else { panic!("a batch") };
    queue.writing();
    thread::sleep(PATIENCE);
    for _ in 0..63 {
        push_own(&queue, vec![b'x'; 1 << 20], false);
    }
    let pump = Arc::clone(&queue);
    let blocked = thread::spawn(move || push_own(&pump, vec![b'y'; 1 << 20], false));
    thread::sleep(Duration::from_millis(50));
    assert!(!blocked.is_finished());
    assert!(matches!(queue.next(block), Next::Batch(_)));
    assert_eq!(blocked.join().unwrap(), Pushed::Queued);
}

#[test]
fn a_sleeping_recorder_is_woken_and_a_closed_queue_takes_nothing() {
    let queue = Arc::new(queue());
    let recorder = Arc::clone(&queue);
    let recorder = thread::spawn(move || {
        let mut block = Block::default();
        let mut count = 0;
        while let Next::Batch(next) = recorder.next(block) {
            count += next.messages().len();
            block = next;
        }
        count
    });
    for _ in 0..1000 {
        if push(&queue, From::Client, "x") == Pushed::WakeDue {
            queue.wake();
        }
    }
    queue.close();
    assert_eq!(push(&queue, From::Client, "late"), Pushed::Closed);
    assert_eq!(recorder.join().unwrap(), 1000);
}

#[test]
fn a_nudge_is_answered_after_what_was_queued_before_it_however_much_comes_behind() {
    let queue = queue();
    push(&queue, From::Client, "before");
    queue.nudge();
    let Next::Batch(block) = queue.next(Block::default()) else { panic!("what was queued before") };
    push(&queue, From::Server, "behind");
    assert!(matches!(queue.next(block), Next::Nothing));
    assert!(matches!(queue.next(Block::default()), Next::Batch(_)));
    queue.close();
    assert!(matches!(queue.next(Block::default()), Next::Closed));
}
