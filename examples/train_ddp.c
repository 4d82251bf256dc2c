/* SPDX-License-Identifier: Apache-2.0
 * Data-parallel training: a small character model learns the licence texts that every Debian carries.
 *
 *   motet run -n 2 train_ddp          also: torchrun --no-python, mpirun, srun; alone it is one rank
 *   train_ddp --steps 400 --check 0   other options: --text FILE, --lr RATE
 *
 * Each rank takes its share of every batch. Gradients leave in one bucket per layer, on a stream, as soon as the last backward step
 * of that layer is done, while the layers below are still busy; the optimizer waits for the stream.
 *
 * The loss is that of one rank on the whole batch, bit for bit: a batch is MICROS micro-batches, their gradients are added as a
 * balanced binary tree, and motet adds ranks as the same kind of tree, so that with 1, 2, 4 or 8 ranks of one host it is one and
 * the same tree. With other numbers the roots of the subtrees differ and sums of floats differ in the last bits: the check then
 * allows 1%. At the end rank 0 repeats the first steps alone and compares. */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "motet.h"

enum { CONTEXT = 8, EMBED = 24, HIDDEN = 192, WIDTH = 512, MICRO = 16, MICROS = 8, NLAYERS = 4, LEVELS = 3 };

#define TEXTS "/usr/share/common-licenses"

#define CALL(call)                                                                                                     \
    do {                                                                                                               \
        motetResult_t result_ = (call);                                                                                \
        if (result_ != motetSuccess) {                                                                                 \
            fprintf(stderr, "train_ddp: %s: %s (%s)\n", #call, motetGetErrorString(result_), motetGetLastError(NULL)); \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct options {
    int steps, check;
    float rate;
    const char *text;
};

/* Text as numbers of the distinct characters. */
struct text {
    uint8_t *data;
    uint64_t len;
    int vocab;
};

/* A layer's weights are param[at .. at + size): in x out, then out biases. Layer 0 is the embedding and has none. */
struct layer {
    int in, out;
    size_t at, size;
};

struct model {
    int vocab, padded; /* padded: a multiple of 16, for vectors */
    struct layer layers[NLAYERS];
    size_t nparams;
    float *param, *moment, *square; /* Adam */
    float *grad;                    /* one gradient per parameter, then the loss */
    float *level[LEVELS];           /* sums of 1, 2, 4 micro-batches that wait for their other half */
    float x[NLAYERS + 1][MICRO][WIDTH], dx[NLAYERS + 1][MICRO][WIDTH]; /* x[i]: input of layer i; x[NLAYERS]: probabilities */
};

struct timing {
    double total, waiting, busy;
};

static void die(const char *text, int status)
{
    fprintf(stderr, "train_ddp: %s\n", text);
    exit(status);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint32_t hash(uint64_t a, uint64_t b)
{
    uint64_t h = (a * 0x9e3779b97f4a7c15u) ^ (b * 0xc2b2ae3d27d4eb4fu);
    h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(h >> 32);
}

/* ---- arithmetic: rows of a multiple of 8 floats, 16 for dot */

typedef float vector __attribute__((vector_size(32), aligned(4), may_alias));

/* to[0..n) += sum over r of scales[r * scale_stride] * rows[r * row_stride + 0..n); count is a multiple of 4. */
static void add_rows(float *to, const float *scales, int scale_stride, const float *rows, int row_stride, int count, int n)
{
    for (int r = 0; r < count; r += 4) {
        float s[4];
        for (int k = 0; k < 4; k++)
            s[k] = scales[(r + k) * scale_stride];
        const float *from = rows + r * row_stride;
        for (int i = 0; i < n; i += 8) {
            const float *at = from + i;
            *(vector *)(to + i) += (s[0] * *(const vector *)at + s[1] * *(const vector *)(at + row_stride)) +
                                   (s[2] * *(const vector *)(at + 2 * row_stride) + s[3] * *(const vector *)(at + 3 * row_stride));
        }
    }
}

static void add(float *to, const float *from, int n)
{
    for (int i = 0; i < n; i += 8)
        *(vector *)(to + i) += *(const vector *)(from + i);
}

static float dot(const float *a, const float *b, int n)
{
    vector even = {0}, odd = {0};
    for (int i = 0; i < n; i += 16) {
        even += *(const vector *)(a + i) * *(const vector *)(b + i);
        odd += *(const vector *)(a + i + 8) * *(const vector *)(b + i + 8);
    }
    even += odd;
    return ((even[0] + even[1]) + (even[2] + even[3])) + ((even[4] + even[5]) + (even[6] + even[7]));
}

/* ---- the model: embedding, two tanh layers, softmax */

static void *zeros(size_t n)
{
    void *at = calloc(n, sizeof(float));
    if (!at)
        die("out of memory", 1);
    return at;
}

static struct model *make_model(int vocab, motetComm_t comm)
{
    struct model *model = zeros(sizeof *model / sizeof(float) + 1);
    int padded = (vocab + 15) / 16 * 16;
    const int widths[NLAYERS][2] = {{padded, EMBED}, {CONTEXT * EMBED, HIDDEN}, {HIDDEN, HIDDEN}, {HIDDEN, padded}};
    model->vocab = vocab;
    model->padded = padded;
    for (int i = 0; i < NLAYERS; i++) {
        int in = widths[i][0], out = widths[i][1];
        model->layers[i] = (struct layer){in, out, model->nparams, (size_t)(in + (i > 0)) * (size_t)out};
        model->nparams += model->layers[i].size;
    }
    model->param = zeros(model->nparams);
    model->moment = zeros(model->nparams);
    model->square = zeros(model->nparams);
    for (int i = 0; i < LEVELS; i++)
        model->level[i] = zeros(model->nparams + 1);
    CALL(motetMemAlloc((void **)&model->grad, (model->nparams + 1) * sizeof(float)));
    for (int i = 0; i < NLAYERS; i++) {
        struct layer *layer = &model->layers[i];
        float spread = i == 0 ? 0.5f : sqrtf(3.0f / (float)layer->in);
        for (size_t k = 0; k < (size_t)layer->in * (size_t)layer->out; k++)
            model->param[layer->at + k] = spread * ((float)hash((uint64_t)i, k) * 0x1p-31f - 1);
    }
    CALL(motetBroadcast(model->param, model->param, model->nparams, motetFloat32, 0, comm, NULL));
    return model;
}

static void free_model(struct model *model)
{
    for (int i = 0; i < LEVELS; i++)
        free(model->level[i]);
    free(model->param);
    free(model->moment);
    free(model->square);
    CALL(motetMemFree(model->grad));
    free(model);
}

/* Predicts the character after each sample's context; returns the summed loss and leaves its gradient in dx[NLAYERS]. */
static float forward(struct model *model, const uint8_t *const samples[MICRO])
{
    float loss = 0;
    for (int b = 0; b < MICRO; b++) {
        for (int c = 0; c < CONTEXT; c++)
            memcpy(model->x[1][b] + c * EMBED, model->param + samples[b][c] * EMBED, EMBED * sizeof(float));
        for (int i = 1; i < NLAYERS; i++) {
            const struct layer *layer = &model->layers[i];
            const float *weights = model->param + layer->at;
            float *out = model->x[i + 1][b];
            memcpy(out, weights + layer->in * layer->out, (size_t)layer->out * sizeof(float));
            add_rows(out, model->x[i][b], 1, weights, layer->out, layer->in, layer->out);
            for (int k = 0; i < NLAYERS - 1 && k < layer->out; k++)
                out[k] = tanhf(out[k]);
        }
        float *logits = model->x[NLAYERS][b], *d = model->dx[NLAYERS][b], max = logits[0], sum = 0;
        int target = samples[b][CONTEXT];
        for (int k = 1; k < model->vocab; k++)
            max = logits[k] > max ? logits[k] : max;
        for (int k = 0; k < model->vocab; k++)
            sum += d[k] = expf(logits[k] - max);
        for (int k = 0; k < model->padded; k++)
            d[k] = k < model->vocab ? d[k] / sum - (float)(k == target) : 0;
        loss += logf(sum) + max - logits[target];
    }
    return loss;
}

/* Adds this micro-batch's gradient of layer i to grad, and gives the layer below its dx. */
static void backward(struct model *model, int i, const uint8_t *const samples[MICRO])
{
    const struct layer *layer = &model->layers[i];
    const float *weights = model->param + layer->at;
    float *grad = model->grad + layer->at;
    float(*dout)[WIDTH] = model->dx[i + 1];
    for (int b = 0; i == 0 && b < MICRO; b++)
        for (int c = 0; c < CONTEXT; c++)
            add(grad + samples[b][c] * EMBED, dout[b] + c * EMBED, EMBED);
    if (i == 0)
        return;
    for (int k = 0; k < layer->in; k++) {
        add_rows(grad + k * layer->out, &model->x[i][0][k], WIDTH, dout[0], WIDTH, MICRO, layer->out);
        for (int b = 0; b < MICRO; b++) {
            float x = model->x[i][b][k];
            model->dx[i][b][k] = dot(weights + k * layer->out, dout[b], layer->out) * (i > 1 ? 1 - x * x : 1);
        }
    }
    for (int b = 0; b < MICRO; b++)
        add(grad + layer->in * layer->out, dout[b], layer->out);
}

/* Adds grad[at .. at + n) of local micro-batch `k` of `count` into the binary tree: as a binary counter, a full pair moves up. After
 * the last one grad holds the sum of all. */
static void merge(struct model *model, size_t at, size_t n, int k, int count)
{
    bool last = k + 1 == count;
    int level = 0;
    for (; last ? k >> level : k >> level & 1; level++)
        for (size_t i = at; (k >> level & 1) && i < at + n; i++)
            model->grad[i] += model->level[level][i];
    if (!last)
        memcpy(model->level[level] + at, model->grad + at, n * sizeof(float));
}

static void adam(struct model *model, int step, float rate)
{
    float scale = 1.0f / (MICRO * MICROS), fix1 = 1 - powf(0.9f, (float)step), fix2 = 1 - powf(0.999f, (float)step);
    for (size_t i = 0; i < model->nparams; i++) {
        float g = model->grad[i] * scale;
        model->moment[i] = 0.9f * model->moment[i] + 0.1f * g;
        model->square[i] = 0.999f * model->square[i] + 0.001f * g * g;
        model->param[i] -= rate * (model->moment[i] / fix1) / (sqrtf(model->square[i] / fix2) + 1e-8f);
    }
}

/* ---- training */

struct trainer {
    motetComm_t comm;
    motetStream_t stream;
    motetEvent_t start[NLAYERS], end[NLAYERS];
    int rank, nranks;
};

/* The layer's gradient is complete on this rank: its bucket leaves, and backward goes on. The loss travels with the last layer. */
static void send_bucket(struct trainer *trainer, struct model *model, int i)
{
    const struct layer *layer = &model->layers[i];
    float *bucket = model->grad + layer->at;
    size_t n = layer->size + (i == NLAYERS - 1);
    CALL(motetEventRecord(trainer->start[i], trainer->stream));
    CALL(motetAllReduce(bucket, bucket, n, motetFloat32, motetSum, trainer->comm, trainer->stream));
    CALL(motetEventRecord(trainer->end[i], trainer->stream));
}

/* One step over this rank's micro-batches; returns the mean loss of the whole batch. */
static float train_step(struct trainer *trainer, struct model *model, const struct text *text, int step, float rate,
                        struct timing *timing)
{
    int first = trainer->rank * MICROS / trainer->nranks, count = (trainer->rank + 1) * MICROS / trainer->nranks - first;
    const uint8_t *samples[MICRO];
    for (int k = 0; k < count; k++) {
        for (int b = 0; b < MICRO; b++)
            samples[b] = text->data + hash((uint64_t)step + 1000, (uint64_t)((first + k) * MICRO + b)) % (text->len - CONTEXT);
        memset(model->grad, 0, (model->nparams + 1) * sizeof(float));
        model->grad[model->nparams] = forward(model, samples);
        for (int i = NLAYERS - 1; i >= 0; i--) {
            backward(model, i, samples);
            merge(model, model->layers[i].at, model->layers[i].size + (i == NLAYERS - 1), k, count);
            if (k + 1 == count)
                send_bucket(trainer, model, i);
        }
    }
    double start = now();
    CALL(motetStreamSynchronize(trainer->stream));
    timing->waiting += now() - start;
    for (int i = 0; i < NLAYERS; i++) {
        float ms;
        CALL(motetEventElapsedTime(&ms, trainer->start[i], trainer->end[i]));
        timing->busy += ms * 1e-3;
    }
    adam(model, step + 1, rate);
    return model->grad[model->nparams] / (MICRO * MICROS);
}

/* Trains from the start on all ranks of comm; losses[s] is the loss of step s. */
static struct timing train(motetComm_t comm, const struct text *text, int steps, float rate, bool talk, float *losses)
{
    struct trainer trainer = {.comm = comm};
    struct timing timing = {0, 0, 0};
    CALL(motetCommUserRank(comm, &trainer.rank));
    CALL(motetCommCount(comm, &trainer.nranks));
    CALL(motetStreamCreate(&trainer.stream));
    for (int i = 0; i < NLAYERS; i++) {
        CALL(motetEventCreate(&trainer.start[i]));
        CALL(motetEventCreate(&trainer.end[i]));
    }
    struct model *model = make_model(text->vocab, comm);
    if (talk)
        printf("%d rank%s, %zu parameters, batches of %d characters, %d different ones\n", trainer.nranks,
               trainer.nranks == 1 ? "" : "s", model->nparams, MICRO * MICROS, text->vocab);
    double start = now(), recent = 0;
    for (int step = 0; step < steps; step++) {
        losses[step] = train_step(&trainer, model, text, step, rate, &timing);
        recent += losses[step];
        if (talk && (step + 1) % 25 == 0) {
            printf("step %4d  loss %.4f (mean of 25)\n", step + 1, recent / 25);
            fflush(stdout);
            recent = 0;
        }
    }
    timing.total = now() - start;
    free_model(model);
    for (int i = 0; i < NLAYERS; i++) {
        CALL(motetEventDestroy(trainer.start[i]));
        CALL(motetEventDestroy(trainer.end[i]));
    }
    CALL(motetStreamDestroy(trainer.stream));
    return timing;
}

/* ---- text: rank 0 reads, all get it */

static void append_file(struct text *text, const char *path)
{
    struct stat status;
    FILE *file = lstat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "r") : NULL;
    if (!file)
        return;
    text->data = realloc(text->data, text->len + (size_t)status.st_size + 1);
    if (!text->data)
        die("out of memory", 1);
    text->len += fread(text->data + text->len, 1, (size_t)status.st_size, file);
    fclose(file);
}

static void read_text(struct text *text, const char *path)
{
    struct dirent **names = NULL;
    char file[4352];
    int n = path ? 0 : scandir(TEXTS, &names, NULL, alphasort);
    if (path)
        append_file(text, path);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/%s", TEXTS, names[i]->d_name);
        append_file(text, file);
        free(names[i]);
    }
    free(names);
}

static struct text share_text(const char *path, motetComm_t comm, int rank)
{
    struct text text = {NULL, 0, 0};
    int number[256];
    if (rank == 0)
        read_text(&text, path);
    CALL(motetBroadcast(&text.len, &text.len, 1, motetUint64, 0, comm, NULL));
    if (text.len < 1000)
        die("less than 1000 characters of text in " TEXTS " or the file of --text", 1);
    if (rank != 0 && !(text.data = malloc(text.len)))
        die("out of memory", 1);
    CALL(motetBroadcast(text.data, text.data, text.len, motetUint8, 0, comm, NULL));
    memset(number, -1, sizeof number);
    for (uint64_t i = 0; i < text.len; i++) {
        if (number[text.data[i]] < 0)
            number[text.data[i]] = text.vocab++;
        text.data[i] = (uint8_t)number[text.data[i]];
    }
    return text;
}

/* Rank 0 alone, the whole batch: is the loss the same? Returns the exit status. */
static int check(const struct text *text, const struct options *options, int nranks, const float *losses)
{
    motetComm_t alone;
    float *again = zeros((size_t)options->check);
    int last = options->check - 1;
    bool one_tree = MICROS % nranks == 0;
    CALL(motetCommInitAll(&alone, 1, NULL));
    train(alone, text, options->check, options->rate, false, again);
    CALL(motetCommDestroy(alone));
    float difference = fabsf(again[last] - losses[last]), allowed = one_tree ? 0 : 0.01f * losses[last];
    printf("check: loss of step %d is %.7f on %d rank%s and %.7f on one rank with the whole batch: %s\n", last, losses[last],
           nranks, nranks == 1 ? "" : "s", again[last],
           difference == 0         ? "the same bits"
           : difference <= allowed ? "close enough"
                                   : "WRONG");
    free(again);
    return difference <= allowed ? 0 : 1;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {300, 50, 0.004f, NULL};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--steps") == 0 && atoi(value) > 0)
            options.steps = atoi(value);
        else if (value && strcmp(argv[i], "--check") == 0 && atoi(value) >= 0)
            options.check = atoi(value);
        else if (value && strcmp(argv[i], "--lr") == 0)
            options.rate = (float)atof(value);
        else if (value && strcmp(argv[i], "--text") == 0)
            options.text = value;
        else
            die("usage: train_ddp [--steps N] [--check N] [--lr RATE] [--text FILE]", 2);
    }
    if (options.check > options.steps)
        options.check = options.steps;
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    motetComm_t comm;
    int rank, nranks, status = 0;
    CALL(motetCommInitEnv(&comm, NULL));
    CALL(motetCommUserRank(comm, &rank));
    CALL(motetCommCount(comm, &nranks));
    if (nranks > MICROS)
        die("more ranks than micro-batches in a batch (8)", 2);
    struct text text = share_text(options.text, comm, rank);
    float *losses = zeros((size_t)options.steps);
    struct timing timing = train(comm, &text, options.steps, options.rate, rank == 0, losses);
    CALL(motetCommDestroy(comm));
    if (rank == 0) {
        double hidden = timing.busy > timing.waiting ? timing.busy - timing.waiting : 0;
        printf("%.0f tokens/s; communication %.1f%% of the time: %.1f%% behind backward, %.1f%% waited for\n",
               (double)options.steps * MICRO * MICROS / timing.total, 100 * (hidden + timing.waiting) / timing.total,
               100 * hidden / timing.total, 100 * timing.waiting / timing.total);
        if (options.check)
            status = check(&text, &options, nranks, losses);
    }
    free(losses);
    free(text.data);
    return status;
}
