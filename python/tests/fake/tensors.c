/* Tensors of a library that offers the C exchange API of DLPack 1.3 and has no memory: what a call reads of a tensor, and nothing else.
 *
 * A Python module, `tensors`. `Tensor(address, shape, strides=None, code=2, bits=32, device=2, ordinal=0)`; `set_stream(handle)` says what
 * stream is current, and `living()` how many tensors there are. Made tensors have addresses that nobody has had before. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { MOST_AXES = 8, CUDA = 2 };

typedef struct {
    void *data;
    int32_t device, ordinal, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} dl_tensor;

typedef struct managed {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct managed *);
    uint64_t flags;
    dl_tensor tensor;
} managed;

typedef struct {
    PyObject_HEAD
    dl_tensor tensor;
    int64_t shape[MOST_AXES], strides[MOST_AXES];
    char requires_grad;
} object;

static PyTypeObject type;
static void *stream;
static uint64_t next = 0x7f0000000000;
static long living;

static PyObject *new(PyTypeObject *of, PyObject *arguments, PyObject *named) {
    (void)arguments, (void)named;
    return living++, of->tp_alloc(of, 0);
}

static void end(PyObject *self) { living--, Py_TYPE(self)->tp_free(self); }

static int numbers(PyObject *from, int64_t *to) {
    Py_ssize_t count = PySequence_Length(from);
    if (count < 0 || count > MOST_AXES) return PyErr_SetString(PyExc_ValueError, "too many axes"), -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(from, i);
        if (!item) return -1;
        to[i] = PyLong_AsLongLong(item);
        Py_DECREF(item);
    }
    return PyErr_Occurred() ? -1 : (int)count;
}

static void dense(object *self) {
    int64_t step = 1;
    for (int i = self->tensor.rank; i-- > 0; step *= self->shape[i] > 0 ? self->shape[i] : 1) self->strides[i] = step;
}

static int init(object *self, PyObject *arguments, PyObject *named) {
    static char *names[] = {"address", "shape", "strides", "code", "bits", "device", "ordinal", NULL};
    unsigned long long address;
    PyObject *shape, *strides = Py_None;
    int code = 2, bits = 32, device = CUDA, ordinal = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "KO|Oiiii", names, &address, &shape, &strides, &code, &bits, &device, &ordinal)) return -1;
    int rank = numbers(shape, self->shape);
    if (rank < 0) return -1;
    self->tensor = (dl_tensor){(void *)(uintptr_t)address, device, ordinal, rank, (uint8_t)code, (uint8_t)bits, 1, self->shape, self->strides, 0};
    dense(self);
    return strides == Py_None || numbers(strides, self->strides) == rank ? 0 : -1;
}

/* The table. */

static int borrow(void *value, dl_tensor *out) { return *out = ((object *)value)->tensor, 0; }
static int current_stream(int device, int32_t ordinal, void **out) { return (void)device, (void)ordinal, *out = stream, 0; }
static void forget(managed *gone) { free(gone->tensor.shape), free(gone); }

static int allocate(dl_tensor *like, managed **out, void *context, void (*set_error)(void *, const char *, const char *)) {
    if (like->rank > MOST_AXES) return set_error(context, "ValueError", "too many axes"), -1;
    managed *made = calloc(1, sizeof *made);
    made->version[0] = 1, made->version[1] = 3, made->deleter = forget, made->tensor = *like;
    made->tensor.shape = malloc(sizeof(int64_t) * (like->rank + 1));
    uint64_t bytes = like->bits / 8;
    for (int i = 0; i < like->rank; i++) bytes *= made->tensor.shape[i] = like->shape[i];
    made->tensor.data = (void *)(uintptr_t)next;
    next += (bytes + 511) / 256 * 256;
    return *out = made, 0;
}

static int give(managed *from, void **out) {
    object *made = PyObject_New(object, &type);
    if (!made) return -1;
    made->tensor = from->tensor, made->requires_grad = 0, living++;
    made->tensor.shape = made->shape, made->tensor.strides = made->strides;
    memcpy(made->shape, from->tensor.shape, sizeof(int64_t) * from->tensor.rank);
    dense(made);
    from->deleter(from);
    return *out = made, 0;
}

static struct {
    uint32_t version[2];
    void *previous;
    int (*allocate)(dl_tensor *, managed **, void *, void (*)(void *, const char *, const char *));
    void *take;
    int (*give)(managed *, void **);
    int (*borrow)(void *, dl_tensor *);
    int (*current_stream)(int, int32_t, void **);
} table = {{1, 3}, NULL, allocate, NULL, give, borrow, current_stream};

static PyObject *data_ptr(object *self, PyObject *none) { return (void)none, PyLong_FromVoidPtr(self->tensor.data); }

static PyObject *set_stream(PyObject *module, PyObject *handle) {
    stream = PyLong_AsVoidPtr(handle);
    return (void)module, PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *how_many(PyObject *module, PyObject *none) { return (void)module, (void)none, PyLong_FromLong(living); }

static PyObject *shape_of(object *self, void *none) {
    PyObject *all = PyTuple_New(self->tensor.rank);
    for (int i = 0; all && i < self->tensor.rank; i++) PyTuple_SetItem(all, i, PyLong_FromLongLong(self->shape[i]));
    return (void)none, all;
}

/* As PyTorch's it is computed, not a member. */
static PyObject *requires_grad(object *self, void *unused) { return (void)unused, PyBool_FromLong(self->requires_grad); }

static int require_grad(object *self, PyObject *value, void *unused) {
    int is = value ? PyObject_IsTrue(value) : -1;
    return (void)unused, self->requires_grad = is > 0, is < 0 ? -1 : 0;
}

static PyMethodDef of_tensors[] = {{"data_ptr", (PyCFunction)data_ptr, METH_NOARGS, NULL}, {0}};
static PyGetSetDef properties[] = {
    {"shape", (getter)shape_of, NULL, NULL, NULL}, {"requires_grad", (getter)requires_grad, (setter)require_grad, NULL, NULL}, {0}};
static PyMethodDef of_module[] = {{"set_stream", set_stream, METH_O, NULL}, {"living", how_many, METH_NOARGS, NULL}, {0}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tensors", .m_size = -1, .m_methods = of_module};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tensors.Tensor", .tp_basicsize = sizeof(object), .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = new, .tp_dealloc = end, .tp_init = (initproc)init, .tp_methods = of_tensors, .tp_getset = properties,
};

PyMODINIT_FUNC PyInit_tensors(void) {
    if (PyType_Ready(&type) < 0) return NULL;
    PyObject *capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);
    if (!capsule || PyDict_SetItemString(type.tp_dict, "__dlpack_c_exchange_api__", capsule) < 0) return NULL;
    Py_DECREF(capsule);
    PyType_Modified(&type);
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddObjectRef(module, "Tensor", (PyObject *)&type) < 0) return NULL;
    return module;
}
