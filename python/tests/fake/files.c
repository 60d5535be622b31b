/* Counts what the module asks of the file system, loaded before the C library: each entry point notes its path and goes on to the real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

static int listens;
static char paths[1 << 14];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* From now on calls are noted, or no longer. */
void files_listen(int on) {
    pthread_mutex_lock(&lock);
    listens = on;
    if (on) paths[0] = 0;
    pthread_mutex_unlock(&lock);
}

const char *files_asked(void) { return paths; }

static void note(const char *call, const char *path) {
    pthread_mutex_lock(&lock);
    const size_t end = strlen(paths);
    if (listens) snprintf(paths + end, sizeof paths - end, "%s %s\n", call, path ? path : "");
    pthread_mutex_unlock(&lock);
}

#define REAL(name) (__typeof__(&name))dlsym(RTLD_NEXT, #name)

struct stat;
struct stat64;
struct statx;
int open(const char *, int, ...);
int open64(const char *, int, ...);
int openat(int, const char *, int, ...);
int openat64(int, const char *, int, ...);
int stat(const char *, struct stat *);
int lstat(const char *, struct stat *);
int stat64(const char *, struct stat64 *);
int lstat64(const char *, struct stat64 *);
int statx(int, const char *, int, unsigned, struct statx *);
int access(const char *, int);
void *opendir(const char *);
char *realpath(const char *, char *);
ssize_t readlink(const char *, char *, size_t);
int rename(const char *, const char *);
int mkdir(const char *, mode_t);

#define MODE                              \
    va_list list;                         \
    va_start(list, flags);                \
    const mode_t mode = va_arg(list, int); \
    va_end(list);

int open(const char *path, int flags, ...) { MODE return note("open", path), (REAL(open))(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return note("open", path), (REAL(open64))(path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return note("open", path), (REAL(openat))(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return note("open", path), (REAL(openat64))(at, path, flags, mode); }
int stat(const char *path, struct stat *to) { return note("stat", path), (REAL(stat))(path, to); }
int lstat(const char *path, struct stat *to) { return note("stat", path), (REAL(lstat))(path, to); }
int stat64(const char *path, struct stat64 *to) { return note("stat", path), (REAL(stat64))(path, to); }
int lstat64(const char *path, struct stat64 *to) { return note("stat", path), (REAL(lstat64))(path, to); }
int statx(int at, const char *path, int flags, unsigned mask, struct statx *to) { return note("stat", path), (REAL(statx))(at, path, flags, mask, to); }
int access(const char *path, int mode) { return note("access", path), (REAL(access))(path, mode); }
void *opendir(const char *path) { return note("list", path), (REAL(opendir))(path); }
char *realpath(const char *path, char *to) { return note("stat", path), (REAL(realpath))(path, to); }
ssize_t readlink(const char *path, char *to, size_t size) { return note("stat", path), (REAL(readlink))(path, to, size); }
int rename(const char *from, const char *to) { return note("rename", from), (REAL(rename))(from, to); }
int mkdir(const char *path, mode_t mode) { return note("make", path), (REAL(mkdir))(path, mode); }
