/* The byte tokenizer in the words of the Hugging Face tokenizers library: a BPE without merges over
 * the 256 symbols that its ByteLevel pre-tokenizer makes of bytes. */
#include "base/fs.h"
#include "base/json.h"
#include "tokenizer/internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a file that may be ours, however it is indented. */
enum { OURS_MOST = 1 << 16 };

static json_t *vocab_json(void) {
    uint32_t symbols[256];
    json_t *vocab = json_object();
    int bad = 0;
    oc_tk_byte_symbols(symbols);
    for (int i = 0; i < OC_BYTES_FIRST; i++)
        bad |= json_object_set_new(vocab, oc_tk_bytes_specials[i], json_integer(i));
    for (unsigned b = 0; b < 256; b++) {
        char symbol[5];
        symbol[oc_tk_put_utf8(symbols[b], symbol)] = 0;
        bad |= json_object_set_new(vocab, symbol, json_integer(OC_BYTES_FIRST + (json_int_t)b));
    }
    if (bad == 0) return vocab;
    json_decref(vocab);
    return NULL;
}

static json_t *added_json(void) {
    json_t *added = json_array();
    int bad = 0;
    for (int i = 0; i < OC_BYTES_FIRST; i++)
        bad |= json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                                      i, "content", oc_tk_bytes_specials[i],
                                                      "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                      "normalized", 0, "special", 1));
    if (bad == 0) return added;
    json_decref(added);
    return NULL;
}

static json_t *byte_level_json(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", 0);
}

static json_t *token_json(const char *id, int type_id) {
    return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", id, "type_id", type_id);
}

static json_t *sequence_json(const char *id, int type_id) {
    return json_pack("{s:{s:s, s:i}}", "Sequence", "id", id, "type_id", type_id);
}

static json_t *special_json(int id) {
    return json_pack("{s:s, s:[i], s:[s]}", "id", oc_tk_bytes_specials[id], "ids", id, "tokens",
                     oc_tk_bytes_specials[id]);
}

static json_t *template_json(void) {
    const char *bos = oc_tk_bytes_specials[OC_BYTES_BOS], *eos = oc_tk_bytes_specials[OC_BYTES_EOS];
    return json_pack("{s:s, s:[o,o,o], s:[o,o,o,o,o,o], s:{s:o, s:o}}", "type",
                     "TemplateProcessing", "single", token_json(bos, 0), sequence_json("A", 0),
                     token_json(eos, 0), "pair", token_json(bos, 0), sequence_json("A", 0),
                     token_json(eos, 0), token_json(bos, 1), sequence_json("B", 1),
                     token_json(eos, 1), "special_tokens", bos, special_json(OC_BYTES_BOS), eos,
                     special_json(OC_BYTES_EOS));
}

static json_t *tokenizer_json(void) {
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:[]}", "type", "BPE", "dropout",
                  "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                  "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab_json(), "merges");
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", added_json(), "normalizer",
                     "pre_tokenizer", byte_level_json(), "post_processor", template_json(),
                     "decoder", byte_level_json(), "model", model);
}

static json_t *config_json(void) {
    return json_pack("{s:s, s:s, s:s, s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                     "bos_token", oc_tk_bytes_specials[OC_BYTES_BOS], "eos_token",
                     oc_tk_bytes_specials[OC_BYTES_EOS], "pad_token",
                     oc_tk_bytes_specials[OC_BYTES_PAD], "clean_up_tokenization_spaces", 0);
}

/* Takes root. */
static oc_status save(json_t *root, const char *dir, const char *name, oc_error *err) {
    char *text = root == NULL ? NULL : oc_json_dump(root, JSON_INDENT(2)), *path = NULL;
    json_decref(root);
    if (asprintf(&path, "%s/%s", dir, name) < 0) path = NULL;
    oc_status s;
    if (text == NULL || path == NULL) {
        s = oc_fail(err, OC_E_MEMORY, "%s/%s: no memory to write it", dir, name);
    } else {
        s = oc_fs_write_atomic(path, text, strlen(text), err);
    }
    free(text);
    free(path);
    return s;
}

oc_status oc_tokenizer_save(const oc_tokenizer *t, const char *dir, oc_error *err) {
    if (!t->bytes)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "%s: only the byte tokenizer can be written; others are copied as files",
                       dir);
    OC_TRY(save(tokenizer_json(), dir, "tokenizer.json", err));
    return save(config_json(), dir, "tokenizer_config.json", err);
}

oc_status oc_tk_json_is_bytes(const char *json, size_t n, bool *same, oc_error *err) {
    json_t *root = NULL;
    *same = false;
    if (n > OURS_MOST) return OC_OK;
    oc_status s = oc_json_parse(&root, json, n, "tokenizer.json", 1, OC_JSON_NO_NUL, err);
    if (s != OC_OK) return s == OC_E_MEMORY ? s : OC_OK; /* what it is then is told by its reader */
    json_t *ours = tokenizer_json();
    if (ours == NULL) s = oc_fail(err, OC_E_MEMORY, "no memory to read a tokenizer");
    if (ours != NULL) *same = json_equal(root, ours) == 1;
    json_decref(root);
    json_decref(ours);
    return s;
}
