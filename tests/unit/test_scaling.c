/* SPDX-License-Identifier: Apache-2.0
 * motet plan's arithmetic against a worked example and closed formulas; parameters of known models from their config.json. */
#include "scaling.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_near(double value, double expected, double share, const char *what)
{
    if (!(fabs(value - expected) <= share * fabs(expected) + 1e-12))
        fail_msg("%s: %.6g instead of %.6g", what, value, expected);
}

/* 7 B parameters in fp16 on 4 devices, 0.3 s of compute. */
static struct scaling_input example(void)
{
    return (struct scaling_input){
        .model = {.params = 7e9},
        .dtype_bytes = 2,
        .batch = 1,
        .tp = 1,
        .pp = 1,
        .dp = 4,
        .microbatches = 1,
        .virtual_stages = 1,
        .per_host = 4,
        .compute_s = 0.3,
        .link_gbs = 32,
        .net_gbs = 32,
        .compression = 1,
        .algo = "ring",
    };
}

static struct scaling_result compute(const struct scaling_input *input)
{
    struct scaling_result result;
    char why[256] = "";
    if (!scaling_compute(input, &result, why, sizeof why))
        fail_msg("%s", why);
    return result;
}

static void test_scaling_example_moves_21_gb_in_656_ms(void **state)
{
    (void)state;
    struct scaling_input input = example();
    struct scaling_result result = compute(&input);
    assert_near(result.gradient_bytes, 14e9, 1e-9, "gradients");
    assert_near(result.gradient_bytes / 0x1p30, 13.04, 1e-3, "in GiB");
    assert_near(result.traffic[SCALING_GRADIENTS].bytes, 21e9, 1e-6, "sent");
    assert_near(result.traffic[SCALING_GRADIENTS].s, 0.656, 1e-3, "time");
    assert_near(result.efficiency, 0.31, 0.02, "efficiency");
    input.compute_s = 1.2;
    assert_near(compute(&input).efficiency, 0.65, 0.01, "efficiency of 1.2 s");
    input.link_gbs = 300;
    input.compute_s = 0.3;
    result = compute(&input);
    assert_near(result.traffic[SCALING_GRADIENTS].s, 0.070, 1e-3, "time at 300 GB/s");
    assert_near(result.efficiency, 0.81, 0.01, "efficiency at 300 GB/s");
    input.compute_s = 0.5;
    assert_near(compute(&input).efficiency, 0.88, 0.01, "efficiency of 0.5 s at 300 GB/s");
    input.link_gbs = 600;
    assert_near(compute(&input).traffic[SCALING_GRADIENTS].s, 0.035, 1e-3, "taken as one way");
}

static void test_scaling_zero_stages_move_and_need_what_the_paper_says(void **state)
{
    static const double moved[] = {21e9, 21e9, 21e9, 31.5e9}, needed[] = {112e9, 49e9, 38.5e9, 28e9};
    (void)state;
    for (int zero = 0; zero <= 3; zero++) {
        struct scaling_input input = example();
        input.zero = zero;
        struct scaling_result result = compute(&input);
        double bytes = result.traffic[SCALING_GRADIENTS].bytes + result.traffic[SCALING_PARAMETERS].bytes;
        assert_near(bytes, moved[zero], 1e-6, "moved");
        assert_near(result.memory.total, needed[zero], 1e-6, "memory");
        input.memory_gb = 24;
        assert_false(compute(&input).fits);
        /* Accumulation repeats what a stage cannot keep. */
        input.microbatches = 4;
        result = compute(&input);
        bytes = result.traffic[SCALING_GRADIENTS].bytes + result.traffic[SCALING_PARAMETERS].bytes;
        assert_near(bytes, zero < 2 ? 21e9 : zero == 2 ? 5 * 10.5e9 : 4 * 31.5e9, 1e-6, "moved in four micro-steps");
    }
}

static void test_scaling_other_models_have_the_gradients_that_are_quoted(void **state)
{
    struct scaling_input input = example();
    (void)state;
    input.model.params = 175e9;
    assert_near(compute(&input).gradient_bytes, 350e9, 1e-9, "175 B in fp16");
    input.model.params = 25.6e6;
    input.dtype_bytes = 4;
    assert_near(compute(&input).gradient_bytes, 102e6, 0.005, "25.6 M in float32");
}

static void test_scaling_bubble_follows_both_definitions(void **state)
{
    static const struct {
        int microbatches;
        double bubble;
    } cases[] = {{17, 0.15}, {57, 0.05}};
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        struct scaling_input input = example();
        input.model = (struct scaling_model){.params = 7e9, .layers = 32, .hidden = 4096, .heads = 32};
        input.sequence = 2048;
        input.pp = 4;
        input.dp = 1;
        input.microbatches = cases[c].microbatches;
        struct scaling_result result = compute(&input);
        assert_near(result.bubble, cases[c].bubble, 1e-9, "bubble");
        assert_near(result.bubble_s / result.compute_s, 3.0 / cases[c].microbatches, 1e-9, "to ideal time");
        assert_true(result.traffic[SCALING_STAGES].bytes > 0);
        input.virtual_stages = 2;
        assert_near(compute(&input).bubble, 3.0 / (2 * cases[c].microbatches + 3), 1e-9, "interleaved");
    }
}

static void test_scaling_tensor_parallelism_reduces_four_times_a_layer(void **state)
{
    struct scaling_input input = example();
    (void)state;
    input.model = (struct scaling_model){.params = 7e9, .layers = 32, .hidden = 4096, .heads = 32};
    input.sequence = 2048;
    input.tp = 4;
    input.dp = 1;
    input.microbatches = 3;
    struct scaling_result result = compute(&input);
    assert_near(result.traffic[SCALING_TENSOR].bytes, 3.0 * 32 * 4 * 2 * 3 / 4 * 2048 * 4096 * 2, 1e-6, "tensor parallel");
    assert_true(result.traffic[SCALING_GRADIENTS].ranks == 0);
    assert_near(result.gradient_bytes, 3.5e9, 1e-9, "a quarter of the model");
    /* Korthikanti et al.: s b h L (10 + 24/t + 5 a s/(h t)). */
    assert_near(result.memory.activations, 2048.0 * 4096 * 32 * (10 + 24 / 4.0 + 5.0 * 32 * 2048 / (4096 * 4.0)), 1e-9,
                "activations");
    input.recompute = SCALING_FULL;
    assert_near(compute(&input).memory.activations, 2048.0 * 4096 * 32 * 2, 1e-9, "recomputed");
}

static void test_scaling_groups_use_the_network_when_they_leave_the_host(void **state)
{
    struct scaling_input input = example();
    (void)state;
    input.dp = 16;
    input.per_host = 8;
    input.net_gbs = 12.5;
    input.net_us = 30;
    struct scaling_result result = compute(&input);
    assert_true(result.traffic[SCALING_GRADIENTS].crosses);
    assert_near(result.traffic[SCALING_GRADIENTS].s, 2.0 * 15 / 16 * 14 / 12.5 + 30 * 30e-6, 1e-6, "ring over the network");
    input.per_host = 16;
    assert_false(compute(&input).traffic[SCALING_GRADIENTS].crosses);
}

static void test_scaling_overlap_hides_no_more_than_there_is(void **state)
{
    struct scaling_input input = example();
    (void)state;
    input.overlap = 0.5;
    struct scaling_result result = compute(&input);
    assert_near(result.hidden_s, 0.15, 1e-9, "hidden");
    assert_near(result.exposed_s, 0.65625 - 0.15, 1e-6, "exposed");
    input.compute_s = 5;
    result = compute(&input);
    assert_near(result.hidden_s, 0.65625, 1e-6, "all hidden");
    assert_near(result.efficiency, 1, 1e-9, "nothing exposed");
}

static void test_scaling_fit_finds_exposed_time_and_overlap(void **state)
{
    const struct scaling_point points[] = {{0.3, 0.40}, {1.2, 0.75}};
    double total, share;
    (void)state;
    scaling_fit(points, 2, &total, &share);
    assert_near(total - share * 0.3, 0.45, 1e-9, "exposed at 0.3 s");
    assert_near(total - share * 1.2, 0.40, 1e-9, "exposed at 1.2 s");
    assert_near(share, 0.05 / 0.9, 1e-9, "overlap");
    scaling_fit(points, 1, &total, &share);
    assert_near(total, 0.45, 1e-9, "one point");
    assert_true(share == 0);
}

static void test_scaling_changes_are_what_recomputing_says(void **state)
{
    struct scaling_input input = example();
    struct scaling_change changes[SCALING_CHANGES];
    (void)state;
    struct scaling_result before = compute(&input);
    int n = scaling_try_changes(&input, changes);
    assert_in_range(n, 5, SCALING_CHANGES);
    for (int i = 0; i < n; i++) {
        struct scaling_result again = compute(&changes[i].input);
        assert_near(again.tokens_per_s, changes[i].result.tokens_per_s, 1e-12, changes[i].name);
        if (i > 0)
            assert_true(changes[i].result.tokens_per_s <= changes[i - 1].result.tokens_per_s);
    }
    assert_true(changes[0].result.tokens_per_s > before.tokens_per_s);
}

static void test_scaling_search_ranks_all_layouts_that_divide_the_work(void **state)
{
    struct scaling_input input = example();
    struct scaling_layout *layouts;
    (void)state;
    input.model = (struct scaling_model){.params = 7e9, .layers = 32, .hidden = 4096, .heads = 32};
    input.sequence = 2048;
    input.compute_s = 0;
    input.tflops = 312;
    input.utilisation = 0.4;
    input.memory_gb = 80;
    input.per_host = 8;
    input.net_gbs = 25;
    int n = scaling_search(&input, 64, 256, &layouts), fitting = 0;
    assert_true(n > 50);
    for (int i = 0; i < n; i++) {
        const struct scaling_input *cut = &layouts[i].input;
        assert_int_equal(cut->tp * cut->pp * cut->dp, 64);
        assert_int_equal((int)cut->batch * cut->microbatches * cut->dp, 256);
        assert_true(cut->tp <= 8);
        fitting += layouts[i].result.fits;
        if (i > 0 && layouts[i].result.fits)
            assert_true(layouts[i - 1].result.fits && layouts[i].result.tokens_per_s <= layouts[i - 1].result.tokens_per_s);
    }
    assert_in_range(fitting, 1, n - 1);
    free(layouts);
}

static void test_scaling_config_counts_parameters_of_known_models(void **state)
{
    static const struct {
        const char *text;
        double params;
        int experts;
    } cases[] = {
        {"{\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"intermediate_size\": 11008, "
         "\"vocab_size\": 32000, \"hidden_act\": \"silu\", \"tie_word_embeddings\": false}",
         6.738e9, 0},
        {"{\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 50257, \"n_inner\": null, "
         "\"activation_function\": \"gelu_new\"}",
         124e6, 0},
        {"{\"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
         "\"intermediate_size\": 14336, \"vocab_size\": 32000, \"hidden_act\": \"silu\", \"num_local_experts\": 8, "
         "\"num_experts_per_tok\": 2, \"tie_word_embeddings\": false}",
         46.7e9, 8},
    };
    (void)state;
    for (size_t c = 0; c < 3; c++) {
        struct scaling_model model;
        char why[256] = "";
        assert_true(scaling_config_parse("c", cases[c].text, strlen(cases[c].text), &model, why, sizeof why));
        assert_near(model.params, cases[c].params, 0.01, "parameters");
        assert_int_equal(model.experts, cases[c].experts);
    }
}

static void test_scaling_config_errors_name_file_line_and_element(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {{"{\n\"hidden_size\": \"large\"}", "c:2: hidden_size "},
                 {"{\"hidden_size\": 64}", "c:1: num_hidden_layers is missing"},
                 {"{\"hidden_size\": 64,\n\n\"n_layer\": -1}", "c:3: n_layer "},
                 {"[", "c:1: "}};
    (void)state;
    for (size_t c = 0; c < 4; c++) {
        struct scaling_model model;
        char why[256] = "";
        assert_false(scaling_config_parse("c", cases[c].text, strlen(cases[c].text), &model, why, sizeof why));
        if (strncmp(why, cases[c].expected, strlen(cases[c].expected)) != 0)
            fail_msg("\"%s\" instead of \"%s\"", why, cases[c].expected);
    }
}

static void test_scaling_presets_are_one_way_and_have_sources(void **state)
{
    (void)state;
    for (int i = 0; i < scaling_npresets; i++) {
        assert_true(strlen(scaling_presets[i].source) > 20);
        assert_ptr_equal(scaling_preset_find(scaling_presets[i].name), &scaling_presets[i]);
        assert_true(scaling_presets[i].gbs > 0 || scaling_presets[i].us > 0);
    }
    assert_near(scaling_preset_find("NVLink3")->gbs, 300, 1e-9, "NVLink 3");
    assert_near(scaling_preset_find("400gbe")->gbs, 50, 1e-9, "400 Gb/s");
    assert_null(scaling_preset_find("abacus"));
}

static void test_scaling_refuses_what_it_cannot_know(void **state)
{
    struct scaling_input input = example();
    struct scaling_result result;
    char why[256] = "";
    (void)state;
    input.pp = 2;
    assert_false(scaling_compute(&input, &result, why, sizeof why));
    assert_non_null(strstr(why, "layers"));
    input = example();
    input.compute_s = 0;
    assert_false(scaling_compute(&input, &result, why, sizeof why));
    assert_non_null(strstr(why, "--compute"));
    input = example();
    input.algo = "no_such";
    assert_false(scaling_compute(&input, &result, why, sizeof why));
    assert_non_null(strstr(why, "no_such"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scaling_example_moves_21_gb_in_656_ms),
        cmocka_unit_test(test_scaling_zero_stages_move_and_need_what_the_paper_says),
        cmocka_unit_test(test_scaling_other_models_have_the_gradients_that_are_quoted),
        cmocka_unit_test(test_scaling_bubble_follows_both_definitions),
        cmocka_unit_test(test_scaling_tensor_parallelism_reduces_four_times_a_layer),
        cmocka_unit_test(test_scaling_groups_use_the_network_when_they_leave_the_host),
        cmocka_unit_test(test_scaling_overlap_hides_no_more_than_there_is),
        cmocka_unit_test(test_scaling_fit_finds_exposed_time_and_overlap),
        cmocka_unit_test(test_scaling_changes_are_what_recomputing_says),
        cmocka_unit_test(test_scaling_search_ranks_all_layouts_that_divide_the_work),
        cmocka_unit_test(test_scaling_config_counts_parameters_of_known_models),
        cmocka_unit_test(test_scaling_config_errors_name_file_line_and_element),
        cmocka_unit_test(test_scaling_presets_are_one_way_and_have_sources),
        cmocka_unit_test(test_scaling_refuses_what_it_cannot_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
