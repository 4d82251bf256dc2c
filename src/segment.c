/* SPDX-License-Identifier: Apache-2.0
 * A page heap over one sparse memfd. The bookkeeping is private memory of this process, so no peer can harm it: a sorted array of used
 * ranges, first fit between them. Invariant: bytes outside used ranges read as zero, because a range is punched out when it is freed.
 * Ranges of 2 MB and more lie 2 MB-aligned in the upper half, where the kernel is asked for huge pages; small ones in the lower half. */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"

#define PAGE         ((size_t)4096)
#define HUGE_PAGE    ((size_t)2 << 20)
#define DEFAULT_SIZE ((size_t)64 << 30)
#define LEAST_SIZE   ((size_t)64 << 20)

struct range {
    size_t at, len;
    uint64_t number; /* not 0: freed, but for peers; see motet_segment_free_when_unused */
    _Atomic uint8_t *holders;
    int nholders;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *base;
static size_t size;
static int file = -1;
static pid_t owner;
static uint8_t token[MOTET_SEGMENT_TOKEN_BYTES];
static struct range *used; /* sorted by at; used[0] is the token's page */
static int nused, nlingering, capacity;
static size_t used_bytes;
static uint64_t last_number;
static bool held;

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Twice the memory of the host at least, so that the address range is never what runs out first. */
static size_t wanted_size(void)
{
    struct sysinfo info;
    struct rlimit limit;
    size_t wanted = DEFAULT_SIZE;
    if (sysinfo(&info) == 0 && 2 * (size_t)info.totalram * info.mem_unit > wanted)
        wanted = round_up(2 * (size_t)info.totalram * info.mem_unit, HUGE_PAGE * 2);
    /* A file beyond the limit would raise SIGXFSZ; an address space that is limited must hold peers' segments too. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted)
        wanted = limit.rlim_cur / (2 * HUGE_PAGE) * (2 * HUGE_PAGE);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / 16 < wanted)
        wanted = limit.rlim_cur / 16 / (2 * HUGE_PAGE) * (2 * HUGE_PAGE);
    return wanted > LEAST_SIZE ? wanted : LEAST_SIZE;
}

static bool huge_by_advice;
static pthread_once_t huge_once = PTHREAD_ONCE_INIT;

static void read_huge_policy(void)
{
    char text[128] = "";
    int policy = motet_descriptor_lift(open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC));
    if (policy < 0)
        return;
    ssize_t len = read(policy, text, sizeof(text) - 1);
    close(policy);
    huge_by_advice = len > 0 && strstr(text, "[advise]");
}

/* Whether asking for huge pages does anything; asking splits the mapping in two, at every peer. */
static bool huge_pages_by_advice(void)
{
    pthread_once(&huge_once, read_huge_policy);
    return huge_by_advice;
}

static void *map(int fd, size_t len, int advice)
{
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, len, MADV_DONTDUMP);
    if (advice)
        madvise(at, len, advice);
    size_t upper = round_up(len / 2, HUGE_PAGE);
    if (huge_pages_by_advice())
        madvise((char *)at + upper, len - upper, MADV_HUGEPAGE);
    return at;
}

/* Maps the largest size that the kernel grants, down to LEAST_SIZE. */
static motetResult_t create(void)
{
    int error = 0;
    for (size_t len = wanted_size(); !base && len >= LEAST_SIZE; len /= 2) {
        TRY(motet_memfd("motet-segment", len, &file));
        base = map(file, len, 0);
        error = errno;
        size = len;
        if (!base)
            close(file);
    }
    if (!base) {
        file = -1;
        return motet_fail(motetSystemError, "no address space for %zu MB of shared memory: %s (see ulimit -v)", LEAST_SIZE >> 20,
                          strerror(error));
    }
    motet_descriptor_keep(file);
    return motetSuccess;
}

static void destroy(void)
{
    if (base)
        munmap(base, size);
    motet_descriptor_close(file);
    free(used);
    base = NULL;
    file = -1;
    used = NULL;
    nused = nlingering = capacity = 0;
    size = used_bytes = 0;
}

static bool reserve_entry(void)
{
    if (nused < capacity)
        return true;
    int larger = capacity ? 2 * capacity : 64;
    struct range *moved = realloc(used, (size_t)larger * sizeof(*used));
    if (!moved)
        return false;
    used = moved;
    capacity = larger;
    return true;
}

static void insert(int index, size_t at, size_t len)
{
    memmove(used + index + 1, used + index, (size_t)(nused - index) * sizeof(*used));
    used[index] = (struct range){.at = at, .len = len};
    nused++;
    used_bytes += len;
}

static motetResult_t open_locked(void)
{
    if (base && owner != getpid())
        return motet_fail(motetInvalidUsage, "shared memory belongs to pid %d (forked); this process is pid %d", owner, getpid());
    if (base)
        return motetSuccess;
    TRY(motet_random(token, sizeof(token)));
    TRY(create());
    owner = getpid();
    if (!reserve_entry()) {
        destroy();
        return motet_fail(motetSystemError, "out of memory for the heap of shared memory");
    }
    insert(0, 0, PAGE);
    memcpy(base, token, sizeof(token));
    INFO(MOTET_LOG_ALLOC, "segment of %zu MB (virtual) at %p", size >> 20, (void *)base);
    return motetSuccess;
}

static void close_if_unused(void)
{
    if (base && owner == getpid() && nused - nlingering <= 1 && !held)
        destroy();
}

motetResult_t motet_segment_open(void)
{
    pthread_mutex_lock(&lock);
    motetResult_t result = open_locked();
    pthread_mutex_unlock(&lock);
    return result;
}

motetResult_t motet_segment_hold(void)
{
    pthread_mutex_lock(&lock);
    motetResult_t result = open_locked();
    held = held || result == motetSuccess;
    pthread_mutex_unlock(&lock);
    return result;
}

void motet_segment_drop(void)
{
    pthread_mutex_lock(&lock);
    held = false;
    close_if_unused();
    pthread_mutex_unlock(&lock);
}

/* First gap of len bytes at or above `from`: index where its range goes in the array, or -1. */
static int find_gap(size_t len, size_t unit, size_t from, size_t *at)
{
    for (int i = 0; i < nused; i++) {
        size_t start = used[i].at + used[i].len, end = i + 1 < nused ? used[i + 1].at : size;
        start = round_up(start > from ? start : from, unit);
        if (start <= end && len <= end - start) {
            *at = start;
            return i + 1;
        }
    }
    return -1;
}

static motetResult_t fail_short(size_t len)
{
    struct sysinfo info;
    size_t memory = sysinfo(&info) == 0 ? (size_t)info.totalram * info.mem_unit : 0;
    return motet_fail(
        motetSystemError,
        "%zu bytes of shared memory are more than is left: %zu MB of %zu MB are in use by %d allocations, the host has %zu MB; "
        "smaller MOTET_BUFFSIZE or MOTET_NCHANNELS, fewer communicators or freed motetMemAlloc memory lower it",
        len, used_bytes >> 20, size >> 20, nused, memory >> 20);
}

static void punch(const struct range *range)
{
    int failed;
    do
        failed = fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range->at, (off_t)range->len);
    while (failed != 0 && errno == EINTR);
    if (failed != 0)
        memset(base + range->at, 0, range->len);
}

static void free_range(int index)
{
    punch(&used[index]);
    nlingering -= used[index].number != 0;
    used_bytes -= used[index].len;
    nused--;
    memmove(used + index, used + index + 1, (size_t)(nused - index) * sizeof(*used));
}

static bool is_held(const struct range *range)
{
    for (int i = 0; i < range->nholders; i++)
        if (atomic_load(&range->holders[i]))
            return true;
    return false;
}

/* Frees what peers have let go of. */
static void sweep(void)
{
    for (int i = nused - 1; nlingering > 0 && i > 0; i--)
        if (used[i].number && !is_held(&used[i]))
            free_range(i);
}

static motetResult_t alloc_locked(size_t len, void **at)
{
    TRY(open_locked());
    sweep();
    size_t rounded = round_up(len, PAGE), offset;
    struct sysinfo info;
    if (len > size || (sysinfo(&info) == 0 && len > (size_t)(info.totalram + info.totalswap) * info.mem_unit))
        return fail_short(len);
    if (!reserve_entry())
        return motet_fail(motetSystemError, "out of memory for the heap of shared memory");
    bool large = rounded >= HUGE_PAGE;
    int index = find_gap(rounded, large ? HUGE_PAGE : PAGE, large ? size / 2 : 0, &offset);
    if (index < 0 && large)
        index = find_gap(rounded, PAGE, 0, &offset);
    if (index < 0)
        return fail_short(len);
    insert(index, offset, rounded);
    *at = base + offset;
    return motetSuccess;
}

motetResult_t motet_segment_alloc(size_t len, void **at)
{
    *at = NULL;
    if (len == 0)
        len = 1;
    pthread_mutex_lock(&lock);
    motetResult_t result = alloc_locked(len, at);
    if (result != motetSuccess)
        close_if_unused();
    pthread_mutex_unlock(&lock);
    return result;
}

/* Index of the used range that starts at `at` (the token's page is nobody's), or -1; the lock is held. */
static int find_used(const void *at)
{
    if (!base || (const char *)at <= base || (const char *)at >= base + size)
        return -1;
    size_t offset = (size_t)((const char *)at - base);
    int low = 1, high = nused;
    while (low < high) {
        int middle = (low + high) / 2;
        if (used[middle].at < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < nused && used[low].at == offset ? low : -1;
}

void motet_segment_free(void *at)
{
    pthread_mutex_lock(&lock);
    int index = owner == getpid() ? find_used(at) : -1;
    if (index > 0)
        free_range(index);
    if (base && owner == getpid())
        sweep();
    close_if_unused();
    pthread_mutex_unlock(&lock);
}

/* Index of the range that lingers under a number, or -1; the lock is held. */
static int find_lingering(uint64_t number)
{
    for (int i = 0; base && owner == getpid() && nlingering > 0 && i < nused; i++)
        if (used[i].number == number)
            return i;
    return -1;
}

uint64_t motet_segment_free_when_unused(void *at, _Atomic uint8_t *holders, int n)
{
    uint64_t number = 0;
    pthread_mutex_lock(&lock);
    int index = owner == getpid() ? find_used(at) : -1;
    if (index > 0 && !used[index].number) {
        used[index].number = number = ++last_number;
        used[index].holders = holders;
        used[index].nholders = n;
        nlingering++;
        sweep();
        number = find_lingering(number) >= 0 ? number : 0;
        close_if_unused();
    }
    pthread_mutex_unlock(&lock);
    return number;
}

void motet_segment_let_go(uint64_t number, int holder)
{
    pthread_mutex_lock(&lock);
    int index = find_lingering(number);
    if (index >= 0 && holder < used[index].nholders) {
        atomic_store(&used[index].holders[holder], 0);
        sweep();
    }
    pthread_mutex_unlock(&lock);
}

bool motet_segment_lingers(uint64_t number)
{
    pthread_mutex_lock(&lock);
    bool lingers = find_lingering(number) >= 0;
    pthread_mutex_unlock(&lock);
    return lingers;
}

bool motet_segment_owns(const void *at)
{
    pthread_mutex_lock(&lock);
    bool owns = find_used(at) > 0;
    pthread_mutex_unlock(&lock);
    return owns;
}

bool motet_segment_offset(const void *at, size_t len, uint64_t *offset)
{
    uintptr_t address = (uintptr_t)at, start = (uintptr_t)base;
    if (!base || address < start || address - start > size || len > size - (address - start))
        return false;
    *offset = address - start;
    return true;
}

void *motet_segment_base(void)
{
    return base;
}

size_t motet_segment_len(void)
{
    return size;
}

int motet_segment_fd(void)
{
    return file;
}

const uint8_t *motet_segment_token(void)
{
    return token;
}

motetResult_t motet_segment_map(int fd, size_t len, void **at)
{
    *at = map(fd, len, MADV_DONTFORK);
    if (!*at)
        return motet_fail_quiet(motetSystemError, "the peer's shared memory (%zu MB) could not be mapped: %s", len >> 20,
                                strerror(errno));
    return motetSuccess;
}
