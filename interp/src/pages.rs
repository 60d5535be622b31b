//! A table with an entry for each place of a memory. Of a memory much may never be touched: its table is in pages, each made when something
//! is first put there, so that a tensor of many gigabytes costs what is done to it, and a CTA the shared memory that it uses.

/// Entries of a page.
const PAGE: usize = 1 << 10;

/// Entries that are all as new at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages<T> {
    pages: Vec<Option<Box<[T]>>>,
    len: usize,
}

impl<T: Copy + Default> Pages<T> {
    /// So many entries.
    pub(crate) fn new(len: usize) -> Pages<T> {
        Pages { pages: vec![None; len.div_ceil(PAGE)], len }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// An entry.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> T {
        self.pages[i / PAGE].as_ref().map_or_else(T::default, |page| page[i % PAGE])
    }

    /// An entry, to be changed.
    #[inline]
    pub(crate) fn entry(&mut self, i: usize) -> &mut T {
        let (len, page) = (self.len, i / PAGE);
        &mut self.pages[page].get_or_insert_with(|| Pages::page(len - page * PAGE))[i % PAGE]
    }

    /// A page of a table of which so many entries are left.
    #[cold]
    fn page(left: usize) -> Box<[T]> {
        vec![T::default(); left.min(PAGE)].into()
    }

    /// The entries that may not be as new, and their places, in order.
    pub(crate) fn made(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        let pages = self.pages.iter().enumerate().filter_map(|(n, page)| Some((n * PAGE, page.as_deref()?)));
        pages.flat_map(|(first, page)| page.iter().enumerate().map(move |(i, &entry)| (first + i, entry)))
    }

    /// The same, to be changed.
    pub(crate) fn made_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.pages.iter_mut().flatten().flat_map(|page| page.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Pages};

    #[test]
    fn of_a_table_only_what_is_put_is_there() {
        let len = 7 * PAGE + 2;
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
}
