/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face's config.json: the members that decide the number of parameters of a decoder. Others are ignored, since there are hundreds. */
#include "json_file.h"
#include "scaling.h"

/* Members by any of their names; "" ends a row. */
enum member { HIDDEN, LAYERS, HEADS, KV_HEADS, INNER, VOCABULARY, EXPERTS, EXPERTS_USED, EXPERT_INNER, HEAD_SIZE, NMEMBERS };
static const char *const names[NMEMBERS][4] = {
    [HIDDEN] = {"hidden_size", "n_embd", "d_model"},
    [LAYERS] = {"num_hidden_layers", "n_layer", "num_layers"},
    [HEADS] = {"num_attention_heads", "n_head", "num_heads"},
    [KV_HEADS] = {"num_key_value_heads"},
    [INNER] = {"intermediate_size", "n_inner", "ffn_dim"},
    [VOCABULARY] = {"vocab_size"},
    [EXPERTS] = {"num_local_experts", "num_experts", "n_routed_experts"},
    [EXPERTS_USED] = {"num_experts_per_tok"},
    [EXPERT_INNER] = {"moe_intermediate_size"},
    [HEAD_SIZE] = {"head_dim"},
};

/* A member that is there must be a whole number; null counts as missing. False: it is not. */
static bool take(const json_t *object, enum member member, int most, double *out, const char **key)
{
    *out = 0;
    for (int k = 0; k < 4 && names[member][k]; k++) {
        json_t *value = json_object_get(object, names[member][k]);
        if (!value || json_is_null(value))
            continue;
        *key = names[member][k];
        *out = (double)json_integer_value(value);
        return json_is_integer(value) && *out >= 1 && *out <= most;
    }
    return true;
}

/* Attention, then the feed-forward part: two matrices, or three where a gate multiplies (any model with silu or a *glu activation). */
static void count(const double *m, bool gated, bool tied, struct scaling_model *model)
{
    double head = m[HEAD_SIZE] > 0 ? m[HEAD_SIZE] : m[HIDDEN] / m[HEADS], kv = m[KV_HEADS] > 0 ? m[KV_HEADS] : m[HEADS];
    double inner = m[INNER] > 0 ? m[INNER] : 4 * m[HIDDEN], matrices = gated ? 3 : 2;
    double attention = m[HIDDEN] * head * (2 * m[HEADS] + 2 * kv);
    double expert = matrices * m[HIDDEN] * (m[EXPERT_INNER] > 0 ? m[EXPERT_INNER] : inner);
    double experts = m[EXPERTS] > 1 ? m[EXPERTS] * expert : 0, router = m[EXPERTS] > 1 ? m[EXPERTS] * m[HIDDEN] : 0;
    double dense = m[EXPERTS] > 1 ? 0 : matrices * m[HIDDEN] * inner;
    model->expert_params = m[LAYERS] * experts;
    model->params =
        m[LAYERS] * (attention + dense + experts + router + 2 * m[HIDDEN]) + m[HIDDEN] + m[VOCABULARY] * m[HIDDEN] * (tied ? 1 : 2);
    model->layers = (int)m[LAYERS];
    model->hidden = (int)m[HIDDEN];
    model->heads = (int)m[HEADS];
    model->experts = m[EXPERTS] > 1 ? (int)m[EXPERTS] : 0;
    model->experts_used = model->experts ? (int)(m[EXPERTS_USED] > 0 ? m[EXPERTS_USED] : 1) : 0;
}

static bool is_gated(const json_t *object)
{
    static const char *const activations[] = {"hidden_act", "activation_function", "hidden_activation"};
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        const char *text = json_string_value(json_object_get(object, activations[i]));
        if (text)
            return strcmp(text, "silu") == 0 || strcmp(text, "swish") == 0 || strstr(text, "glu") ||
                   strcmp(text, "gelu_pytorch_tanh") == 0;
    }
    return false;
}

static bool read_members(const char *name, const char *text, size_t len, const json_t *object, double *m, char *why, size_t why_len)
{
    static const enum member needed[] = {HIDDEN, LAYERS, HEADS, VOCABULARY};
    for (int member = 0; member < NMEMBERS; member++) {
        const char *key = NULL;
        if (!take(object, (enum member)member, 1 << 26, &m[member], &key)) {
            json_file_complain(name, text, len, key, "must be a whole number from 1 to 67108864", why, why_len);
            return false;
        }
    }
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (m[needed[i]] > 0)
            continue;
        json_file_complain(name, text, len, names[needed[i]][0], "is missing", why, why_len);
        return false;
    }
    return true;
}

bool scaling_config_parse(const char *name, const char *text, size_t len, struct scaling_model *model, char *why, size_t why_len)
{
    double m[NMEMBERS];
    json_t *object = json_file_parse(name, text, len, why, why_len);
    if (!object)
        return false;
    *model = (struct scaling_model){0};
    bool good = read_members(name, text, len, object, m, why, why_len);
    if (good)
        count(m, is_gated(object), !json_is_false(json_object_get(object, "tie_word_embeddings")), model); /* absent: tied */
    json_decref(object);
    return good;
}

bool scaling_config_read(const char *name, struct scaling_model *model, char *why, size_t why_len)
{
    size_t len;
    char *text = json_file_load(name, &len, why, why_len);
    bool good = text && scaling_config_parse(name, text, len, model, why, why_len);
    free(text);
    return good;
}
