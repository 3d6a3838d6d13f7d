//! Fair shares of a number of places: no caller can take them all.

use std::collections::HashMap;
use std::hash::Hash;

/// Places, and the number of places of each account. An account may have as many places as remain free. An account that
/// is alone can thus have half of all places, and each of two equal accounts a third. So an account without places gets
/// one as long as any is free.
#[derive(Debug)]
pub(super) struct Shares<K> {
    places: usize,
    taken: usize,
    accounts: HashMap<K, usize>,
}

/// Why an account gets no more places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoShare {
    /// Not enough places are free.
    Full,
    /// The account has reached its share of the places that the other accounts leave.
    Share,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    pub(super) fn new(places: usize) -> Self {
        Self { places, taken: 0, accounts: HashMap::new() }
    }

    /// Checks whether an account can have more places.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub(super) fn check(&self, account: &K, more: usize) -> Result<(), NoShare> {
        let left = self.places.saturating_sub(self.taken);
        let has = self.accounts.get(account).copied().unwrap_or_default();
        if more > left {
            Err(NoShare::Full)
        } else if has.saturating_add(more) > left {
            Err(NoShare::Share)
        } else {
            Ok(())
        }
    }

    /// Takes places for an account. The caller has checked them, or another account has given them back.
    pub(super) fn take(&mut self, account: &K, more: usize) {
        self.taken += more;
        *self.accounts.entry(account.clone()).or_default() += more;
    }

    /// Gives places back.
    pub(super) fn give_back(&mut self, account: &K, places: usize) {
        self.taken = self.taken.saturating_sub(places);
        if let Some(has) = self.accounts.get_mut(account) {
            *has = has.saturating_sub(places);
            if *has == 0 {
                self.accounts.remove(account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many places as an account can have.
    fn fill(shares: &mut Shares<char>, account: char) -> (usize, NoShare) {
        let mut taken = 0;
        loop {
            match shares.check(&account, 1) {
                Ok(()) => shares.take(&account, 1),
                Err(refused) => return (taken, refused),
            }
            taken += 1;
        }
    }

    #[test]
    fn whoever_has_none_finds_room_beside_those_who_take_what_they_can() {
        let mut shares = Shares::new(1_000);
        assert_eq!(fill(&mut shares, 'a'), (500, NoShare::Share));
        assert_eq!(fill(&mut shares, 'b'), (250, NoShare::Share));
        assert_eq!(fill(&mut shares, 'c'), (125, NoShare::Share));
        shares.give_back(&'a', 500);
        assert_eq!(shares.check(&'c', 1), Ok(()));
        assert_eq!(shares.accounts.len(), 2);
    }

    #[test]
    fn the_only_place_is_anybodys() {
        let mut shares = Shares::new(1);
        assert_eq!(fill(&mut shares, 'a'), (1, NoShare::Full));
        assert_eq!(shares.check(&'b', 1), Err(NoShare::Full));
        shares.give_back(&'a', 1);
        assert_eq!(shares.check(&'b', 1), Ok(()));
    }
}
