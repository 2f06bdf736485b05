// Ends the process at once on SIGINT, SIGTERM, SIGHUP and SIGQUIT. Python's own handlers cannot do that: they wait until
// the main thread runs Python code again, which takes seconds where torch is being loaded. The handler calls only what
// is safe in one: open, getdents64, unlinkat, rmdir, write, mmap, _exit. Where memory is limited, it also speaks for
// libraries that abort for want of it.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <stdint.h>
#include <sys/syscall.h>
#endif

enum { SLOTS = 256, RESET = 64, NUMBERS = 32, PASSES = 100 };

// Bytes without which nothing of the program runs.
enum { LEAST = 128 << 20 };

static const int NUMBERS_HANDLED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT}, CRASHES[] = {SIGABRT, SIGBUS, SIGSEGV};

// Folders to remove. A string is never freed, since a handler in another thread may be reading it: some 100 bytes a file.
static char *volatile folders[SLOTS];
static volatile pid_t owner;

// What is written to standard error to put a terminal in order, and its length.
static char reset[RESET];
static volatile sig_atomic_t reset_size;

// By signal: whether Python is told the first time, and whether it was told and has not yet run.
static volatile sig_atomic_t handed[NUMBERS], pending[NUMBERS];

static void remove_files(int folder) {
#ifdef __linux__
    union {
        char bytes[4096];
        uint64_t aligned;
    } buffer;
    long size;
    while ((size = syscall(SYS_getdents64, folder, buffer.bytes, sizeof buffer.bytes)) > 0)
        for (long at = 0; at < size;) {
            // struct linux_dirent64: inode (8 bytes), offset (8), length of the entry (2), type (1), name.
            uint16_t length;
            memcpy(&length, buffer.bytes + at + 16, sizeof length);
            unlinkat(folder, buffer.bytes + at + 19, 0);  // fails for . and .., as it should
            at += length;
        }
    lseek(folder, 0, SEEK_SET);
#else
    (void)folder;
#endif
}

static void remove_folder(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return;
    // Another thread may go on making files in it.
    for (int pass = 0; pass < PASSES; pass++) {
        remove_files(folder);
        if (rmdir(path) == 0 || (errno != ENOTEMPTY && errno != EEXIST)) return;
    }
}

static void say(const char *text, size_t size) {
    ssize_t written = size > 0 ? write(STDERR_FILENO, text, size) : 0;
    (void)written;
}

static void clean_up(void) {
    if (getpid() != owner) return;  // in a forked child, the folders are its parent's
    for (int slot = 0; slot < SLOTS; slot++) {
        const char *path = folders[slot];
        if (path != NULL) remove_folder(path);
    }
    say(reset, (size_t)reset_size);
}

static void leave(int number) {
    if (handed[number] && !pending[number]) {
        pending[number] = 1;
        PyErr_SetInterruptEx(number);  // made for signal handlers
        return;
    }
    clean_up();
    _exit(128 + number);
}

static int is_full_now(void) {
    void *place = mmap(NULL, LEAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return place == MAP_FAILED || munmap(place, LEAST) != 0;
}

static void leave_without_memory(void) {
    static const char MESSAGE[] = "specmt: error: out of memory.\n";
    clean_up();
    say(MESSAGE, sizeof MESSAGE - 1);
    _exit(1);
}

// Of a library that has given up; what it said of it is still in the buffer of stderr.
static void leave_where_memory_ended(int number) {
    if (is_full_now()) leave_without_memory();
    fflush(stderr);
    signal(number, SIG_DFL);
    raise(number);
}

static int is_limited(void) {
    struct rlimit all = {RLIM_INFINITY, 0}, data = all;
    getrlimit(RLIMIT_AS, &all);
    getrlimit(RLIMIT_DATA, &data);
    return all.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

// What Python says that nobody can catch. Who started a thread that ended before it began waits for it for ever. The hook
// is in C, for such a thread has no memory for a frame of Python.
static PyObject *hear(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *error = PyStructSequence_GetItem(arguments, 1), *said = PyStructSequence_GetItem(arguments, 3);
    const char *text = said != NULL && PyUnicode_Check(said) ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    int in_thread = text != NULL && strstr(text, "thread") != NULL;
    // Others come of it: what began not is looked for in vain where threads are counted.
    Py_XINCREF(error);
    while (in_thread && error != NULL && PyExceptionInstance_Check(error)) {
        if (PyErr_GivenExceptionMatches(error, PyExc_MemoryError)) leave_without_memory();
        PyObject *before = PyException_GetContext(error);
        Py_DECREF(error);
        error = before;
    }
    Py_XDECREF(error);
    return PyObject_CallFunctionObjArgs(PySys_GetObject("__unraisablehook__"), arguments, NULL);
}

static PyMethodDef hook = {"hear", hear, METH_O, "Ends the program where memory ended before a thread began."};

// Has libraries that abort, or crash, where memory is limited and ends, end the program in one line.
static int watch_memory(void) {
    static char said[4096];
    if (!is_limited()) return 0;
    if (is_full_now()) leave_without_memory();
    setvbuf(stderr, said, _IOFBF, sizeof said);
    for (size_t i = 0; i < sizeof CRASHES / sizeof *CRASHES; i++) signal(CRASHES[i], leave_where_memory_ended);
    PyObject *function = PyCFunction_NewEx(&hook, NULL, NULL);
    int failed = function == NULL || PySys_SetObject("unraisablehook", function) != 0;
    Py_XDECREF(function);
    return failed ? -1 : 0;
}

static int set_handler(int number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) return -1;
    if (action.sa_handler == SIG_IGN) return 0;  // as under nohup
    memset(&action, 0, sizeof action);
    action.sa_handler = leave;
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, NULL);
}

static PyObject *install(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    owner = getpid();
    for (size_t i = 0; i < sizeof NUMBERS_HANDLED / sizeof *NUMBERS_HANDLED; i++)
        if (set_handler(NUMBERS_HANDLED[i]) != 0) return PyErr_SetFromErrno(PyExc_OSError);
    if (watch_memory() != 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *register_folder(PyObject *module, PyObject *path) {
    (void)module;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    if (owner != getpid()) {
        for (int slot = 0; slot < SLOTS; slot++) folders[slot] = NULL;
        owner = getpid();
    }
    char *copy = strdup(PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    if (copy == NULL) return PyErr_NoMemory();
    for (int slot = 0; slot < SLOTS; slot++)
        if (folders[slot] == NULL) {
            folders[slot] = copy;
            Py_RETURN_NONE;
        }
    free(copy);  // so many at once are cleaned up by Python alone
    Py_RETURN_NONE;
}

static PyObject *unregister_folder(PyObject *module, PyObject *path) {
    (void)module;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    for (int slot = 0; slot < SLOTS; slot++)
        if (folders[slot] != NULL && strcmp(folders[slot], PyBytes_AsString(bytes)) == 0) folders[slot] = NULL;
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

static PyObject *set_reset(PyObject *module, PyObject *bytes) {
    (void)module;
    char *text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &text, &size) != 0) return NULL;
    if (size > RESET) {
        PyErr_SetString(PyExc_ValueError, "the sequence is too long");
        return NULL;
    }
    reset_size = 0;
    memcpy(reset, text, (size_t)size);
    reset_size = (sig_atomic_t)size;
    Py_RETURN_NONE;
}

static PyObject *is_full(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyBool_FromLong(is_limited() && is_full_now());
}

static PyObject *hand(PyObject *module, PyObject *arguments) {
    (void)module;
    int number, to_python;
    if (!PyArg_ParseTuple(arguments, "ip", &number, &to_python)) return NULL;
    if (number < 1 || number >= NUMBERS) {
        PyErr_SetString(PyExc_ValueError, "there is no such signal");
        return NULL;
    }
    handed[number] = to_python;
    pending[number] = 0;
    if (set_handler(number) != 0) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, "Sets the handler for every signal that is not ignored."},
    {"is_full", is_full, METH_NOARGS, "Whether memory is limited, and too little is left for the program to go on."},
    {"register", register_folder, METH_O, "Has the handler remove a folder and the files in it."},
    {"unregister", unregister_folder, METH_O, "Takes a folder back."},
    {"set_reset", set_reset, METH_O, "Sets what the handler writes to standard error."},
    {"hand", hand, METH_VARARGS, "Sets the handler for a signal, and whether Python is told the first time."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_signals", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__signals(void) { return PyModule_Create(&definition); }
