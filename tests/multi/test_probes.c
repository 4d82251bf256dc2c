/* SPDX-License-Identifier: Apache-2.0
 * The probes, used as a tool from outside uses them: found by the notes in the program's own file, armed with a breakpoint in place of the
 * no-operation instruction, counted in a handler of SIGTRAP. Semaphores are incremented as the kernel does for perf and bpftrace. */
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <ucontext.h>

#include "world.h"

#define PROBES_MAX 64

struct probe {
    char name[32], arguments[200];
    uintptr_t at, semaphore;
};

static struct probe probes[PROBES_MAX];
static int nprobes;
static _Atomic int hits[PROBES_MAX];

#if defined(__x86_64__)
typedef uint8_t instruction;
#define NOTHING    0x90
#define BREAKPOINT 0xcc
static uintptr_t stopped_at(ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP] - 1;
}
#elif defined(__aarch64__)
typedef uint32_t instruction;
#define NOTHING    0xd503201fu
#define BREAKPOINT 0xd4200000u
static uintptr_t stopped_at(ucontext_t *context)
{
    context->uc_mcontext.pc += 4;
    return (uintptr_t)context->uc_mcontext.pc - 4;
}
#endif

extern const char __executable_start[]; /* of the linker's: where the program's first byte lies */

static uintptr_t program_bias(const Elf64_Ehdr *header, const Elf64_Phdr *segments)
{
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD)
            return (uintptr_t)__executable_start - segments[i].p_vaddr;
    return 0;
}

/* One note: three addresses, then provider, name and arguments. */
static void add(const char *description, uintptr_t bias, uintptr_t base)
{
    uint64_t words[3];
    memcpy(words, description, sizeof words);
    const char *provider = description + sizeof words, *name = provider + strlen(provider) + 1,
               *arguments = name + strlen(name) + 1;
    if (strcmp(provider, "motet") != 0 || nprobes == PROBES_MAX)
        return;
    struct probe *probe = &probes[nprobes++];
    uintptr_t moved = bias + base - words[1]; /* the linker may have moved the code after the notes were made */
    snprintf(probe->name, sizeof probe->name, "%s", name);
    snprintf(probe->arguments, sizeof probe->arguments, "%s", arguments);
    probe->at = words[0] + moved;
    probe->semaphore = words[2] ? words[2] + moved : 0;
}

static void read_notes(void)
{
    struct stat stat;
    uintptr_t base = 0;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &stat) == 0);
    const char *file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(file != MAP_FAILED);
    close(fd);
    const Elf64_Ehdr *header = (const void *)file;
    uintptr_t bias = program_bias(header, (const void *)(file + header->e_phoff));
    const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
    const char *names = file + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++)
        if (strcmp(names + sections[i].sh_name, ".stapsdt.base") == 0)
            base = sections[i].sh_addr;
    for (int i = 0; i < header->e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, ".note.stapsdt") != 0)
            continue;
        const char *at = file + sections[i].sh_offset, *end = at + sections[i].sh_size;
        while (at < end) {
            const Elf64_Nhdr *note = (const void *)at;
            const char *description = at + sizeof *note + (note->n_namesz + 3) / 4 * 4;
            assert_int_equal(note->n_type, 3);
            assert_string_equal(at + sizeof *note, "stapsdt");
            add(description, bias, base);
            at = description + (note->n_descsz + 3) / 4 * 4;
        }
    }
    munmap((void *)(uintptr_t)file, (size_t)stat.st_size);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    uintptr_t at = stopped_at(context);
    (void)signal, (void)info;
    for (int i = 0; i < nprobes; i++)
        if (probes[i].at == at)
            hits[i]++;
}

/* Puts breakpoints, and says that somebody looks. False: this machine does not let code be written. */
static bool arm(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < nprobes; i++) {
        uintptr_t page = probes[i].at & ~(uintptr_t)4095;
        if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
            return false;
        *(volatile instruction *)probes[i].at = BREAKPOINT;
        __builtin___clear_cache((char *)probes[i].at, (char *)probes[i].at + sizeof(instruction));
        if (probes[i].semaphore)
            ++*(volatile uint16_t *)probes[i].semaphore;
    }
    return true;
}

static int hits_of(const char *name)
{
    int sum = 0;
    for (int i = 0; i < nprobes; i++)
        sum += strcmp(probes[i].name, name) == 0 ? hits[i] : 0;
    return sum;
}

static int count_words(const char *text)
{
    int n = 0;
    for (const char *at = text; *at; at++)
        n += *at != ' ' && (at == text || at[-1] == ' ');
    return n;
}

static void test_probes_notes_name_every_probe_and_its_arguments(void **state)
{
    static const struct {
        const char *name;
        int narguments;
        bool counted; /* has a semaphore */
    } expected[] = {{"call_begin", 8, false}, {"call_end", 5, false}, {"step_begin", 8, true}, {"step_end", 8, true}};
    (void)state;
    for (size_t e = 0; e < sizeof expected / sizeof *expected; e++) {
        bool found = false;
        for (int i = 0; i < nprobes; i++) {
            if (strcmp(probes[i].name, expected[e].name) != 0)
                continue;
            found = true;
            assert_int_equal(count_words(probes[i].arguments), expected[e].narguments);
            assert_int_equal(probes[i].semaphore != 0, expected[e].counted);
            assert_int_equal(*(volatile instruction *)probes[i].at, NOTHING);
        }
        assert_true(found);
    }
}

/* ---- Hits ---- */

static int calls(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { LARGE = 100000, SMALL = 40 };
    static float large[LARGE], out[LARGE];
    float in = (float)rank, sum = -1;
    (void)argument;
    if (!arm())
        return 0;
    for (int i = 0; i < LARGE; i++)
        large[i] = (float)(rank + i);
    int begun = hits_of("call_begin"), ended = hits_of("call_end");
    CHECK(begun == 0 && ended == 0);
    for (int i = 0; i < SMALL; i++) {
        CALL(motetAllReduce(&in, &sum, 1, motetFloat32, motetSum, comm, NULL));
        CHECK(sum == (float)(nranks * (nranks - 1) / 2));
    }
    CHECK(hits_of("call_begin") == SMALL && hits_of("call_end") == SMALL); /* also on the short way */
    int steps = hits_of("step_begin");
    CALL(motetAllReduce(large, out, LARGE, motetFloat32, motetSum, comm, NULL));
    CHECK(out[LARGE - 1] == (float)(nranks * (LARGE - 1) + nranks * (nranks - 1) / 2));
    CHECK(hits_of("step_begin") > steps && hits_of("step_begin") == hits_of("step_end"));
    CALL(motetGroupStart());
    CALL(motetSend(&in, 1, motetFloat32, (rank + 1) % nranks, comm, NULL));
    CALL(motetRecv(&sum, 1, motetFloat32, (rank + nranks - 1) % nranks, comm, NULL));
    CALL(motetGroupEnd());
    CHECK(hits_of("call_begin") == SMALL + 3 && hits_of("call_end") == SMALL + 3);
    return 0;
}

static void test_probes_are_hit_once_per_call_and_step(void **state)
{
    (void)state;
    if (WORLD_SANITIZED) /* its runtime takes signals for itself, and delivers them later */
        skip();
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    assert_int_equal(world_run(&world, calls, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probes_notes_name_every_probe_and_its_arguments),
        cmocka_unit_test(test_probes_are_hit_once_per_call_and_step),
    };
    read_notes();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
