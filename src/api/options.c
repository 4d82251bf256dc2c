/* SPDX-License-Identifier: Apache-2.0
 * A communicator's options: the environment overrides the configuration, which overrides the parent's options and the defaults. */
#include <stdio.h>
#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "profile.h"
#include "tuning.h"

/* A configuration field as seen by this library: undefined when the caller's header was older than the field. */
#define FIELD(config, name) \
    ((config) && offsetof(motetConfig_t, name) + sizeof(config)->name <= (config)->size ? (config)->name : MOTET_CONFIG_UNDEF_INT)

/* The same for the profiler, which is NULL then. */
static const motetProfiler_t *profiler_of(const motetConfig_t *config)
{
    return config && offsetof(motetConfig_t, profiler) + sizeof config->profiler <= config->size ? config->profiler : NULL;
}

static const char *algorithms_of(const motetConfig_t *config)
{
    return config && offsetof(motetConfig_t, algo) + sizeof config->algo <= config->size ? config->algo : NULL;
}

/* Names are checked where the shape is known (tune.c). */
static motetResult_t check_algorithms(const motetConfig_t *config)
{
    const char *algorithms = algorithms_of(config);
    size_t most = sizeof((struct motet_options *)NULL)->algorithms - 1;
    if (!algorithms || strlen(algorithms) <= most)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "configuration: algo has %zu characters, at most %zu are allowed", strlen(algorithms),
                      most);
}

static motetResult_t in_range(const char *name, int value, int min, int max)
{
    if (value == MOTET_CONFIG_UNDEF_INT || (value >= min && value <= max))
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "configuration: %s is %d, must be in [%d, %d]", name, value, min, max);
}

static motetResult_t check_config(const motetConfig_t *config)
{
    if (!config)
        return motetSuccess;
    if (config->size < offsetof(motetConfig_t, cgaClusterSize) || config->magic != MOTET_CONFIG_MAGIC)
        return motet_fail(motetInvalidArgument, "configuration: not initialised with MOTET_CONFIG_INITIALIZER");
    TRY(in_range("blocking", FIELD(config, blocking), 0, 1));
    TRY(in_range("minCTAs", FIELD(config, minCTAs), 1, 64));
    TRY(in_range("maxCTAs", FIELD(config, maxCTAs), 1, 64));
    TRY(in_range("timeoutMs", FIELD(config, timeoutMs), 0, INT_MAX));
    TRY(in_range("initTimeoutMs", FIELD(config, initTimeoutMs), 0, INT_MAX));
    TRY(in_range("warnAfterMs", FIELD(config, warnAfterMs), 0, INT_MAX));
    TRY(in_range("nThreads", FIELD(config, nThreads), 1, 1024));
    if (FIELD(config, minCTAs) != MOTET_CONFIG_UNDEF_INT && FIELD(config, maxCTAs) != MOTET_CONFIG_UNDEF_INT &&
        config->minCTAs > config->maxCTAs)
        return motet_fail(motetInvalidArgument, "configuration: minCTAs %d exceeds maxCTAs %d", config->minCTAs, config->maxCTAs);
    const char *net = offsetof(motetConfig_t, netName) + sizeof config->netName <= config->size ? config->netName : NULL;
    if (net && strcasecmp(net, "Socket") != 0)
        return motet_fail(motetInvalidArgument, "configuration: netName \"%s\" is not a network transport: there is Socket", net);
    TRY(check_algorithms(config));
    return motet_check_profiler(profiler_of(config), "configuration");
}

/* The setting if the environment has it, else the field, else the parent's value, else the setting's default. */
static int64_t choose(enum motet_setting setting, int field, const int64_t *parent)
{
    if (motet_setting_is_set(setting))
        return motet_setting_int(setting);
    if (field != MOTET_CONFIG_UNDEF_INT)
        return field;
    return parent ? *parent : motet_setting_int(setting);
}

/* Where `choose` found it. */
static const char *source(enum motet_setting setting, const char *name, int field, const char *field_name, const char *parent)
{
    if (motet_setting_is_set(setting) || (field == MOTET_CONFIG_UNDEF_INT && !parent))
        return name;
    return field != MOTET_CONFIG_UNDEF_INT ? field_name : parent;
}

static int choose_lanes(const motetConfig_t *config, const struct motet_options *parent)
{
    int64_t lanes = parent ? parent->nlanes : motet_setting_int(MOTET_SET_NCHANNELS);
    int64_t min = choose(MOTET_SET_MIN_NCHANNELS, FIELD(config, minCTAs), NULL),
            max = choose(MOTET_SET_MAX_NCHANNELS, FIELD(config, maxCTAs), NULL);
    if (motet_setting_is_set(MOTET_SET_NCHANNELS))
        lanes = motet_setting_int(MOTET_SET_NCHANNELS);
    lanes = lanes < min ? min : lanes;
    return (int)(lanes > max ? max : lanes);
}

motetResult_t motet_resolve_options(const motetConfig_t *config, const struct motet_options *parent, struct motet_options *options)
{
    const struct motet_tuning *tuning;
    TRY(motet_settings_load());
    TRY(motet_tuning_load(&tuning)); /* a file that makes no sense is an error before anybody is met */
    TRY(check_config(config));
    *options = (struct motet_options){
        .timeout_ms = choose(MOTET_SET_TIMEOUT, FIELD(config, timeoutMs), parent ? &parent->timeout_ms : NULL),
        .init_timeout_ms = choose(MOTET_SET_INIT_TIMEOUT, FIELD(config, initTimeoutMs), parent ? &parent->init_timeout_ms : NULL),
        .timeout_from = source(MOTET_SET_TIMEOUT, "MOTET_TIMEOUT", FIELD(config, timeoutMs), "timeoutMs of the configuration",
                               parent ? parent->timeout_from : NULL),
        .init_timeout_from = source(MOTET_SET_INIT_TIMEOUT, "MOTET_INIT_TIMEOUT", FIELD(config, initTimeoutMs),
                                    "initTimeoutMs of the configuration", parent ? parent->init_timeout_from : NULL),
        .warn_after_ms = choose(MOTET_SET_WARN_AFTER, FIELD(config, warnAfterMs), parent ? &parent->warn_after_ms : NULL),
        .blocking = FIELD(config, blocking) != MOTET_CONFIG_UNDEF_INT ? config->blocking : !parent || parent->blocking,
        .direct = !motet_setting_int(MOTET_SET_P2P_DISABLE),
        .nlanes = choose_lanes(config, parent),
        .lane_bytes = (size_t)motet_setting_int(MOTET_SET_BUFFSIZE),
        .eager_bytes = (size_t)motet_setting_int(MOTET_SET_EAGER),
        .profiler = profiler_of(config) ? *profiler_of(config)
                    : parent            ? parent->profiler
                                        : motet_profile_registered(),
    };
    const char *name =
        config && offsetof(motetConfig_t, commName) + sizeof config->commName <= config->size ? config->commName : NULL;
    snprintf(options->name, sizeof options->name, "%s", name ? name : parent ? parent->name : "world");
    const char *algorithms = algorithms_of(config) ? algorithms_of(config) : parent ? parent->algorithms : "";
    if (!motet_setting_is_set(MOTET_SET_ALGO))
        snprintf(options->algorithms, sizeof options->algorithms, "%s", algorithms);
    return motetSuccess;
}
