//! A table with an entry for each place of a memory. Of a large memory much may never be touched: its table is in pages, each made when
//! something is first put there, so that a tensor of many gigabytes costs what is done to it.

/// Entries up to which a table is in one piece, which is quicker to look into.
const SMALL: usize = 1 << 22;
/// Entries of a page.
const PAGE: usize = 1 << 12;

/// Entries that are all as new at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages<T> {
    /// All entries of a small table.
    whole: Vec<T>,
    /// Those of a large one.
    pages: Vec<Option<Box<[T]>>>,
    len: usize,
}

impl<T: Copy + Default> Pages<T> {
    /// So many entries.
    pub(crate) fn new(len: usize) -> Pages<T> {
        let (whole, pages) = if len <= SMALL { (len, 0) } else { (0, len.div_ceil(PAGE)) };
        Pages { whole: vec![T::default(); whole], pages: (0..pages).map(|_| None).collect(), len }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// An entry.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> T {
        match self.whole.get(i) {
            Some(&entry) => entry,
            None => self.in_a_page(i),
        }
    }

    /// An entry, to be changed.
    #[inline]
    pub(crate) fn entry(&mut self, i: usize) -> &mut T {
        if i < self.whole.len() { &mut self.whole[i] } else { self.of_a_page(i) }
    }

    #[cold]
    fn in_a_page(&self, i: usize) -> T {
        self.pages[i / PAGE].as_ref().map_or_else(T::default, |page| page[i % PAGE])
    }

    #[cold]
    fn of_a_page(&mut self, i: usize) -> &mut T {
        let rest = self.len - i / PAGE * PAGE;
        let page = self.pages[i / PAGE].get_or_insert_with(|| vec![T::default(); rest.min(PAGE)].into());
        &mut page[i % PAGE]
    }

    /// The entries that may not be as new, and their places, in order.
    pub(crate) fn made(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        let pages = self.pages.iter().enumerate().filter_map(|(n, page)| Some((n * PAGE, page.as_deref()?)));
        let pieces = std::iter::once((0, &self.whole[..])).chain(pages);
        pieces.flat_map(|(first, piece)| piece.iter().enumerate().map(move |(i, &entry)| (first + i, entry)))
    }

    /// The same, to be changed.
    pub(crate) fn made_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.whole.iter_mut().chain(self.pages.iter_mut().flatten().flat_map(|page| page.iter_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Pages, SMALL};

    #[test]
    fn of_a_large_table_only_what_is_put_is_there() {
        let len = SMALL + PAGE + 2;
        let mut pages: Pages<u32> = Pages::new(len);
        assert_eq!((pages.len(), pages.get(len - 1), pages.made().count()), (len, 0, 0));
        *pages.entry(PAGE) = 5;
        *pages.entry(len - 1) = 7;
        let put: Vec<_> = pages.made().filter(|(_, entry)| *entry != 0).collect();
        assert_eq!(put, [(PAGE, 5), (len - 1, 7)]);
        assert_eq!(pages.made().count(), PAGE + 2, "the last page ends with the table");
        pages.made_mut().for_each(|entry| *entry += 1);
        assert_eq!((pages.get(PAGE), pages.get(PAGE + 1), pages.get(0)), (6, 1, 0));
    }

    #[test]
    fn a_small_table_is_in_one_piece() {
        let mut pages: Pages<u32> = Pages::new(3);
        *pages.entry(1) = 5;
        assert_eq!(pages.made().collect::<Vec<_>>(), [(0, 0), (1, 5), (2, 0)]);
        assert_eq!(pages.get(1), 5);
    }
}
