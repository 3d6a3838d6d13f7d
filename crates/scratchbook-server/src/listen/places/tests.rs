use super::*;

type PlacesById = Places<&'static str>;

fn network(n: u8) -> Option<Network> {
    Some(Network::of_client([10, 0, 0, n].into()))
}

fn wish(wishes: &watch::Receiver<Wish>) -> Wish {
    *wishes.borrow()
}

fn at_work(places: &mut PlacesById, now: Instant) -> (u64, watch::Receiver<Wish>) {
    let (id, wishes) = places.enter(None, now).unwrap();
    places.change(id, Phase::Answering, now);
    (id, wishes)
}

#[test]
fn what_nobody_uses_makes_room_oldest_first_and_work_does_not() {
    let now = Instant::now();
    let mut places = PlacesById::new(3, 9);
    let (_, of_working) = at_work(&mut places, now);
    let (first, of_first) = at_work(&mut places, now);
    let (second, of_second) = at_work(&mut places, now);
    assert!(places.enter(None, now).is_none(), "all are at work");
    places.change(second, Phase::Idle, now);
    places.change(first, Phase::Idle, now);
    let (_, of_new) = places.enter(None, now).unwrap();
    assert_eq!([wish(&of_working), wish(&of_first), wish(&of_second)], [Wish::GoOn, Wish::GoOn, Wish::End]);
    // A connection with a recent request will soon have another one, so a connection without a request ends first.
    let (_, of_newer) = places.enter(None, now).unwrap();
    assert_eq!([wish(&of_new), wish(&of_first)], [Wish::End, Wish::GoOn]);
    let later = now + PATIENCE;
    let (_, of_newest) = places.enter(None, later).unwrap();
    assert_eq!([wish(&of_newer), wish(&of_first)], [Wish::End, Wish::GoOn]);
    // A new connection gets time to send its first request, if another connection is idle.
    places.enter(None, later).unwrap();
    assert_eq!([wish(&of_newest), wish(&of_first)], [Wish::GoOn, Wish::End]);
}

#[test]
fn a_slow_body_makes_room_and_one_that_has_just_begun_does_not() {
    let now = Instant::now();
    let mut places = PlacesById::new(1, 9);
    let (id, wishes) = places.enter(None, now).unwrap();
    places.change(id, Phase::Receiving, now);
    assert!(places.enter(None, now).is_none());
    assert!(places.enter(None, now + PATIENCE).is_some());
    assert_eq!(wish(&wishes), Wish::Cut);
}

#[test]
fn a_request_that_comes_as_its_connection_is_told_to_end_is_nobody_elses_to_count() {
    let now = Instant::now();
    let mut places = PlacesById::new(1, 9);
    let (first, _wishes) = places.enter(None, now).unwrap();
    let (second, _wishes) = places.enter(None, now).unwrap();
    places.change(first, Phase::Answering, now);
    assert!(places.log_in(first, &"a"));
    places.change(first, Phase::Idle, now);
    assert_eq!((places.len(), places.taken), (2, 1));
    places.leave(first);
    places.leave(second);
    assert_eq!((places.len(), places.taken, places.under_way.len()), (0, 0, 0));
    assert!(places.quiet.iter().all(BTreeMap::is_empty));
}

#[test]
fn strangers_of_an_address_make_room_for_each_other_alone() {
    let now = Instant::now();
    let mut places = PlacesById::new(10, 2);
    let (_, of_other) = places.enter(network(2), now).unwrap();
    let (first, of_first) = places.enter(network(1), now).unwrap();
    let (_, of_second) = places.enter(network(1), now).unwrap();
    // A connection on which somebody has logged in no longer counts as a stranger's.
    places.change(first, Phase::Answering, now);
    assert!(places.log_in(first, &"a"));
    places.change(first, Phase::Idle, now);
    places.enter(network(1), now).unwrap();
    places.enter(network(1), now).unwrap();
    assert_eq!([wish(&of_other), wish(&of_first), wish(&of_second)], [Wish::GoOn, Wish::GoOn, Wish::End]);
    for n in 0..20 {
        places.enter(None, now).unwrap();
        assert!(places.taken <= 10, "{n}");
    }
}

#[test]
fn a_login_has_more_than_half_only_while_nobody_needs_it() {
    let now = Instant::now();
    let mut places = PlacesById::new(16, 9);
    let all: Vec<_> = (0..16).map(|_| places.enter(None, now).unwrap()).collect();
    for (n, (id, _)) in all.iter().enumerate() {
        places.change(*id, Phase::Answering, now);
        assert_eq!(places.log_in(*id, &"a"), n < 14, "request {n} of one");
    }
    places.leave(all[15].0);
    let (id, _wishes) = at_work(&mut places, now);
    assert!(places.log_in(id, &"b"), "another has what is left");
}

#[test]
fn at_the_end_nobody_comes_in_and_all_are_told() {
    let now = Instant::now();
    let mut places = PlacesById::new(2, 9);
    let (_, wishes) = places.enter(None, now).unwrap();
    places.close(Wish::End);
    assert_eq!(wish(&wishes), Wish::End);
    assert!(places.enter(None, now).is_none());
    places.close(Wish::Cut);
    assert_eq!(wish(&wishes), Wish::Cut);
}
