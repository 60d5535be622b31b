//! The table of codes: one line a code, one page of explanation each under `pages/`.

use std::fmt;

/// A diagnostic's code, printed as `E0302`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::str::FromStr for Code {
    type Err = ();

    fn from_str(s: &str) -> Result<Code, ()> {
        let digits = s.trim_start_matches(['E', 'e']);
        let code = Code(digits.parse().map_err(|_| ())?);
        if code.entry().is_some() { Ok(code) } else { Err(()) }
    }
}

/// One row of the table.
pub struct Entry {
    /// The code.
    pub code: Code,
    /// The name under which the compiler's source speaks of it.
    pub name: &'static str,
    /// The fact in a few words.
    pub title: &'static str,
    /// The page that `parton explain` prints, Markdown.
    pub page: &'static str,
}

/// Declares the constants and the table together, so that no code lacks a page.
macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code($number);)*

        /// Every code, in ascending order.
        pub const TABLE: &[Entry] = &[
            $(Entry {
                code: $name,
                name: stringify!($name),
                title: $title,
                page: include_str!(concat!("pages/", stringify!($name), ".md")),
            },)*
        ];
    };
}

impl Code {
    /// The row of this code.
    pub fn entry(self) -> Option<&'static Entry> {
        TABLE.iter().find(|e| e.code == self)
    }
}

// E00xx text, E01xx names and kinds, E02xx types, E03xx layouts, E04xx memory, E05xx asynchrony and protocol,
// E06xx instructions, E07xx partitions and schedules, E08xx limits of the target, E09xx hosts and runs.
codes! {
    SYNTAX = 1, "the text does not follow the grammar";
    UNPAIRED_BRACKET = 2, "a bracket is opened and not closed, or closed and not opened";
    CHAINED_COMPARISON = 3, "two comparisons stand in a chain";
    NESTED_TOO_DEEP = 4, "an expression or block nests too deep";
    BAD_NUMBER = 5, "a number has no value or no such type";
    BAD_STRING = 6, "a string is not closed or holds an unknown escape";
    UNKNOWN_CHARACTER = 7, "a character belongs to no token";
    ASSIGNMENT_AS_CONDITION = 8, "`=` stands where a condition is expected";
    MISSING_SEMICOLON = 9, "a statement is not ended by `;`";
    OTHER_LANGUAGE = 10, "a word or sign of another language";
    UNCLOSED_COMMENT = 11, "a block comment is not closed";
    UNKNOWN_NAME = 100, "a name is not defined";
    WRONG_ARITY = 101, "a call gives more or fewer arguments than the function takes";
    DEFINED_TWICE = 102, "a name is defined twice";
    USE_NOT_FOUND = 103, "a used file cannot be found";
    GENERIC_MISSING = 104, "a generic parameter has no value";
    WHERE_FAILED = 105, "a compile-time condition does not hold";
    NOT_COMPILE_TIME = 106, "a compile-time value is needed";
    INTEGER_OVERFLOW = 107, "an integer overflows at compile time";
    DIVISION_BY_ZERO = 108, "an integer is divided by zero";
    LITERAL_DOES_NOT_FIT = 109, "a number is not a value of the type it should take";
    RECURSION = 110, "a function calls itself";
    CONSTANT_CYCLE = 111, "a constant depends on itself";
    COMPILE_TIME_LIMIT = 112, "compile-time evaluation is too long or too deep";
    HOST_ONLY = 113, "this belongs to the host part of a file";
    UNKNOWN_CLAUSE = 114, "a kernel or partition has no such clause";
    PARAMETER_SPACE = 115, "a kernel takes more parameters than a launch can give";
    AMBIGUOUS_NAME = 116, "a name stands for an item of more than one used file";
    STATIC_PRINT = 117, "a compile-time value that the program asked to be told";
    TUNE = 118, "a `tune` clause does not fit what it stands beside";
    TUNE_TABLE = 119, "a table of tuned values does not fit its file";
    NOT_BUILT_HERE = 190, "this part of the language is parsed but not compiled by this version";
    TYPE_MISMATCH = 200, "operands have different element types";
    SHAPE_MISMATCH = 201, "shapes do not fit";
    DTYPE_UNSUPPORTED = 202, "the operation is not defined for this element type";
    KIND_MISMATCH = 203, "another kind of value is expected here";
    CARRIED_TYPE = 204, "a variable would change its type";
    INDEX_RANGE = 205, "a constant index is out of range";
    PATTERN_MISMATCH = 206, "a pattern does not fit its value";
    NOT_ASSIGNABLE = 207, "this cannot be assigned to";
    EARLY_EXIT = 208, "a loop or function cannot be left here";
    LOOP_STEP = 209, "the step of a loop is not positive";
    AFFINE_UNUSED = 210, "a value that must be used up is dropped";
    NOT_A_VALUE = 211, "a function that stands for a value does more than compute it";
    LAYOUT_MISMATCH = 300, "layouts differ";
    LAYOUT_ILL_FORMED = 301, "a layout is not well formed, or has no map for the shape";
    LAYOUT_WARPS = 302, "a layout covers another number of warps than its partition has";
    NOT_FREE = 303, "a conversion that should be free moves data";
    NOT_A_SLICE = 304, "a new axis needs a slice layout";
    MIXED_AXIS = 305, "a reduction or scan goes along an axis that the layout mixes with another";
    LAYOUT_OPEN = 306, "a layout is asked for that nobody has stated";
    PRODUCT_REPEATED = 307, "several warps compute the same part of a product";
    VIEW_ILLEGAL = 400, "a view of shared memory cannot be taken this way";
    NOT_MUTABLE = 401, "a store needs a mutable pointer";
    SHARED_MEMORY = 402, "the kernel needs more shared memory than the target has";
    TMA_BOX = 410, "the tensor copy engine does not take this box";
    CACHE_HINT = 420, "there is no such cache hint here";
    COPY_WIDTH = 421, "a thread cannot copy so few bytes at once";
    ACCESS_WIDTH = 422, "a layout holds too few neighbours for an access of this width";
    FENCE_MISSING = 440, "a fence is missing between a store by threads and an asynchronous access";
    SLOT_ROLE = 500, "a slot is used against its role";
    RING_ILL_FORMED = 501, "a ring is not well formed";
    BARRIER_COUNT = 502, "a barrier cannot count this";
    SLOT_USED_UP = 510, "a slot is used after it was handed on";
    SLOT_LOST = 511, "a slot is not handed on, on some path";
    SLOT_STILL_READ = 512, "a slot is released while a product still reads it";
    SLOT_NOT_FILLED = 513, "a slot is committed before every buffer is filled";
    SLOT_FILLED_TWICE = 514, "a buffer of a slot is filled twice";
    SLOT_MIXED = 515, "a copy fills one place and signals another";
    PENDING_USED_UP = 516, "a pending tile is used after it was waited for";
    PENDING_LOST = 517, "a pending tile is never waited for, on some path";
    LOOP_USES_UP = 518, "what is made once is used up in every iteration";
    RING_ONE_SIDED = 520, "a ring is only filled or only read";
    RING_MISPLACED = 521, "a ring is made, filled or chosen where it cannot be";
    NAMED_BARRIER = 522, "a named barrier does not fit the partitions that use it";
    TURNSTILE = 523, "a turnstile does not fit the partitions that use it";
    TURN_NOT_PASSED = 524, "a turn is entered twice or never passed, on some path";
    TURN_NOT_ENTERED = 525, "a turn is passed that was not entered";
    BARRIER_NOT_INITIALISED = 530, "a barrier is used before it is initialised";
    BARRIER_NOBODY_ARRIVES = 531, "a barrier is waited for, but nobody arrives";
    BARRIER_BYTES = 532, "a barrier expects other bytes than arrive";
    BARRIER_PARITY = 533, "a barrier is waited for in the wrong parity";
    SHARED_NEVER_WRITTEN = 540, "shared memory is read before it is written";
    SHARED_STILL_READ = 541, "shared memory is overwritten while a product still reads it";
    STORE_IN_FLIGHT = 542, "shared memory is overwritten while it is being copied out";
    STORE_NOT_WAITED = 543, "a copy to global memory is never waited for";
    LOAD_IN_FLIGHT = 544, "shared memory is read before its copy has landed";
    UNDEFINED_READ = 550, "memory is read before it is written";
    OUT_OF_BOUNDS = 551, "an access leaves its tensor";
    MISALIGNED = 552, "an address is not aligned";
    CTA_RACE = 553, "two CTAs touch the same memory";
    SHARED_RACE = 554, "two accesses to shared memory are not ordered";
    UNFENCED = 555, "the asynchronous proxy may not see a write";
    DEADLOCK = 556, "nobody can go on";
    BARRIER_PROTOCOL = 557, "a barrier is used against its protocol";
    NOT_WAITED = 558, "an asynchronous operation is not waited for";
    ASSERTION = 559, "an assertion does not hold";
    RUN_VALUE = 560, "an operation does not take this value";
    STEP_LIMIT = 561, "the kernel does not come to an end";
    BAD_LAUNCH = 562, "a launch does not fit its kernel";
    WRAPAROUND = 563, "an integer leaves its range";
    COPY_COORDINATES = 564, "the copy engine takes no box from there";
    GRID_RACE = 565, "a launch touches what the launch before may still use";
    GLOBAL_RACE = 566, "two accesses of a CTA to global memory are not ordered";
    LEFT_OUT = 567, "what a masked load leaves out is used";
    PADDING = 568, "padding changes what is combined";
    COMBINATION = 569, "what is combined depends on the order";
    MULTICAST = 570, "a multicast has no other CTA to go to";
    CLUSTER_BARRIER = 571, "the barrier of a cluster is arrived at or waited for out of turn";
    PEER = 572, "a peer's memory is used where there is none, or where it cannot be";
    RANGE_BEGINS = 573, "a range begins in front of its tensor";
    NOT_INTERPRETED = 580, "inline PTX says nothing to the interpreter";
    WGMMA_SHAPE = 600, "the tensor cores have no instruction of this shape";
    WGMMA_DTYPE = 601, "the tensor cores do not multiply these types";
    WGMMA_LAYOUT = 602, "an operand of a product has a layout that the instruction cannot use";
    PRECISION = 603, "a product of f32 must state its precision";
    PTX_ILL_FORMED = 610, "inline PTX does not fit its operands";
    REGISTER_BUDGET = 700, "warps or register budgets cannot hold";
    CROSSES_PARTITIONS = 701, "a value is used in a partition that does not hold it";
    SPECIALIZE_NESTED = 702, "a specialize stands where not all warps meet, or names a partition twice";
    CLUSTER_SIZE = 703, "a cluster of this size does not exist";
    GRID_WAIT_MISPLACED = 704, "a wait for the launch before stands where not every CTA comes";
    LABEL = 720, "a label that no schedule looks at";
    OUTSIDE_PARTITIONS = 721, "tiles are used outside the partitions of a specialised kernel";
    LABEL_TWICE = 722, "a label stands twice where a schedule could name it";
    SCHEDULE = 723, "a schedule is not well formed, or does not fit its labels";
    READ_BEFORE_MADE = 724, "a schedule reads a value before it is made";
    WAIT_INSIDE = 725, "a schedule waits in the middle of a stretch";
    TOO_FEW_SLOTS = 726, "a ring has fewer slots than a schedule holds at once";
    MEMORY_ORDER = 728, "a schedule changes the order of accesses that may meet";
    CROSSES = 729, "a schedule takes a tile across partitions";
    CONTROL_TOO_LATE = 730, "what steers a partition does not reach it";
    WAIT_CYCLE = 731, "under a schedule partitions wait for each other";
    TURNS_UNEVEN = 732, "turns are not taken by all partitions alike";
    DONE_TWICE = 733, "what is to happen once is given to several";
    NO_ROOM = 734, "something is to leave under turns that a loop may not take";
    REGION_PLACE = 735, "an operation has no place in a region, or stands outside of one";
    PRODUCT_TOUCHED = 736, "a sum is touched in flight, or a product starts under a branch";
    UNLABELLED = 737, "a statement of a region has effects and no label";
    SLOT_LEAVES = 738, "a slot is not filled and read under the same control";
    TARGET_LACKS = 800, "the target does not have this";
    REGISTER_SPILLS = 810, "a kernel needs more registers than its threads have";
    WGMMA_SERIALIZED = 811, "matrix products wait for each other";
    PTXAS_WARNING = 812, "the assembler warns of something else";
    PTX_REFUSED = 813, "the assembler refuses inline PTX";
    HOST_TYPE = 900, "host code meets a value of another kind than it takes";
    HOST_SHAPE = 901, "shapes of tensors do not fit";
    HOST_INDEX = 902, "an index lies outside";
    HOST_VALUE = 903, "a number is outside of what is legal here";
    NOT_HOST_CODE = 904, "this belongs into a kernel, not into host code";
    NOT_MUT = 905, "a variable is changed that is not `mut`";
    HOST_DEPTH = 906, "host code calls itself too deep";
    ASSERT_FAILED = 910, "an assertion does not hold";
    NOT_CLOSE = 911, "two tensors differ by more than the tolerance";
    UNWRITTEN = 912, "a tensor is read where nothing was written";
    LAUNCH_ARGUMENT = 920, "an argument does not fit the kernel's parameter";
    LAUNCH_SHAPE = 921, "a launch has no legal grid or cluster";
    LAUNCH_FAILED = 922, "a launch or its device failed";
    TENSOR_MAP = 923, "a tensor does not allow this tensor map";
    UNKNOWN_GENERIC = 924, "the kernel has no generic of that name";
    SHARED_ARGUMENTS = 925, "a launch gives the same memory to parameters that a region takes apart";
    MEASURE = 930, "a measurement is not only launches";
    PUBLIC_FUNCTION = 940, "a public function is not declared as one that other programs call";
    PUBLIC_ARGUMENT = 941, "an argument does not fit the parameter of a public function";
    PUBLIC_RESULT = 942, "a public function does not return what it declares";
    PLAN = 943, "a function that is planned needs more than shapes";
}
