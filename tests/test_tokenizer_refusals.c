/* A tokenizer.json that asks for what we lack, or contradicts itself, is refused, and the message
 * names the thing. */
#include "text_util.h"
#include "tokenizer_case.h"

#define MODEL(rest)                                                                                \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\" \":3}," rest               \
    "\"merges\":[\"a b\"]}"
#define WITH(section) "{" section "," MODEL("") "}"
#define ADDED(fields)                                                                              \
    WITH("\"added_tokens\":[{\"id\":4,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"    \
         "\"normalized\":false,\"special\":true," fields "}]")
#define SPLIT(regex)                                                                               \
    WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex                   \
         "\"},\"behavior\":\"Isolated\",\"invert\":false}")
#define POST(single)                                                                               \
    WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single                 \
         "],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[9],\"tokens\":[]}}}")
#define VOCAB(vocab, merges)                                                                       \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}}"

typedef struct refusal {
    const char *json, *names; /* what the message must hold */
} refusal;

static const refusal refusals[] = {
    {"", "not valid JSON"},
    {"[]", "a '{' is missing"},
    {"{", "not valid JSON"},
    {"{}", "\"model\""},
    {"{" MODEL("") "} x", "end of file expected"},
    {"{\"model\":null}", "\"model\""},
    {"{\"model\":3}", "\"model\""},
    {"{\"modle\":3," MODEL("") "}", "\"modle\""},
    {"{\"version\":\"1.0\",\"version\":\"1.0\"," MODEL("") "}", "version"},
    {"{\"version\":tru," MODEL("") "}", "not valid JSON"},
    {"{\"model\":{\"type\":\"WordPiece\"}}", "WordPiece"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "Unigram"},
    {"{\"model\":{\"type\":\"WordLevel\"}}", "WordLevel"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "\"merges\""},
    {"{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", "\"vocab\""},
    {"{" MODEL("\"colour\":1,") "}", "\"colour\""},
    {"{" MODEL("\"dropout\":0.1,") "}", "dropout"},
    {"{" MODEL("\"end_of_word_suffix\":\"</w>\",") "}", "</w>"},
    {"{" MODEL("\"continuing_subword_prefix\":\"##\",") "}", "##"},
    {"{" MODEL("\"fuse_unk\":1,") "}", "fuse_unk"},
    {"{" MODEL("\"unk_token\":1,") "}", "unk_token"},
    {"{" MODEL("\"vocab\":{},") "}", "duplicate object key"},
    {VOCAB("\"a\":0,\"a\":1", ""), "\"a\" occurs twice"},
    {VOCAB("\"a\":0,\"b\":0", ""), "id 0 has two tokens"},
    {VOCAB("\"a\":-1", ""), "id must be an integer"},
    {VOCAB("\"a\":1.5", ""), "id must be an integer"},
    {VOCAB("\"a\":01", ""), "id must be an integer"},
    {VOCAB("\"a\":99999999999999999999", ""), "id must be an integer"},
    {VOCAB("\"a\":2000000000", ""), "2000000000"},
    {VOCAB("\"a\" 1", ""), "':' is missing"},
    {VOCAB("\"a\":1 \"b\":2", ""), "'}' is missing"},
    {VOCAB("\"\\ud800\":1", ""), "\\u escape"},
    {VOCAB("\"\\q\":1", ""), "escape"},
    {VOCAB("\"\x80\":1", ""), "UTF-8"},
    {VOCAB("\"a\nb\":1", ""), "control character"},
    {VOCAB("\"a\":0,\"b\":1", "\"a b\""), "\"ab\""},
    {VOCAB("\"a\":0,\"b\":1", "\"a c\""), "\"c\""},
    {VOCAB("\"a\":0,\"b\":1", "\"c b\""), "\"c\""},
    {VOCAB("\"a\":0", "\"ab\""), "one space"},
    {VOCAB("\"a\":0", "\"a  b\""), "one space"},
    {VOCAB("\"a\":0", "[\"a\"]"), "',' is missing"},
    {VOCAB("\"a\":0", "7"), "'\"' is missing"},
    {WITH("\"normalizer\":{\"type\":\"BertNormalizer\"}"), "BertNormalizer"},
    {WITH("\"normalizer\":{\"type\":\"Precompiled\"}"), "Precompiled"},
    {WITH("\"normalizer\":{\"type\":\"Nmt\"}"), "normalizer: the type \"Nmt\""},
    {WITH("\"normalizer\":{\"type\":\"NFC\",\"x\":1}"), "\"x\" in NFC"},
    {WITH("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true}"), "strip_right"},
    {WITH("\"normalizer\":{\"type\":\"Prepend\"}"), "\"prepend\""},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":\"x\",\"content\":1}"), "\"content\""},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Glob\":\"x\"},\"content\":\"\"}"),
     "\"pattern\""},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"),
     "empty \"pattern\""},
    {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"}]}"), "Nmt"},
    {WITH("\"normalizer\":{\"type\":\"Sequence\"}"), "\"normalizers\""},
    {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[null]}"), "null"},
    {WITH("\"normalizer\":[]"), "normalizer"},
    {WITH("\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"), "BertPreTokenizer"},
    {WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"), "UnicodeScripts"},
    {WITH("\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"), "add_prefix_space"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Digits\"}"), "individual_digits"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"Shaken\"}"), "Shaken"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), "one character"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
          "\"prepend_scheme\":\"often\"}"),
     "often"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
          "\"add_prefix_space\":false}"),
     "add_prefix_space"},
    {SPLIT("("), "a ( without a )"},
    {SPLIT(")"), "a ) without a ("},
    {SPLIT("[a"), "without an end"},
    {SPLIT("[]a]"), "empty class"},
    {SPLIT("[a[b]]"), "a class inside a class"},
    {SPLIT("[a-z&&[^b]]"), "intersection"},
    {SPLIT("(?m:a)"), "a kind of group"},
    {SPLIT("(?<n>a)"), "a kind of group"},
    {SPLIT("a(?i)b"), "a kind of group"},
    {SPLIT("(*FAIL)"), "(*"},
    {SPLIT("a{2}?"), "{n}?"},
    {SPLIT("*a"), "repetition of nothing"},
    {SPLIT("\\\\p{Nonsense}"), "nonsense"},
    {SPLIT("[\\\\p{C}]"), "complement of a set"},
    {SPLIT("\\\\p{L"), "without an end"},
    {SPLIT("\\\\X"), "\\X"},
    {SPLIT("\\\\1"), "\\1"},
    {SPLIT("\\\\xe9"), "not a character"},
    {SPLIT("(?i:ss)"), "fold"},
    {SPLIT("(?i:\xc3\x9f)"), "fold"},
    {SPLIT("(?<=a*)b"), "lookbehind"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
          "\"behavior\":\"Isolated\"}"),
     "invert"},
    {WITH("\"post_processor\":{\"type\":\"Other\"}"), "Other"},
    {POST(""), "the Sequence A once"},
    {POST("{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}"), "the Sequence A once"},
    {POST("{\"Sequence\":{\"id\":\"B\"}}"), "Sequence A"},
    {POST("{\"SpecialToken\":{\"id\":\"</s>\"}},{\"Sequence\":{\"id\":\"A\"}}"), "</s>"},
    {POST("{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}"), "the id 9"},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"x\"],\"cls\":[\"y\",1]}"),
     "\"sep\""},
    {WITH("\"decoder\":{\"type\":\"WordPiece\"}"), "WordPiece"},
    {WITH("\"decoder\":{\"type\":\"CTC\"}"), "CTC"},
    {WITH("\"decoder\":{\"type\":\"BPEDecoder\"}"), "BPEDecoder"},
    {WITH("\"decoder\":{\"type\":\"Fuse\",\"x\":1}"), "\"x\" in Fuse"},
    {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}"), "start"},
    {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}"),
     "one character"},
    {ADDED("\"content\":5"), "\"content\""},
    {ADDED("\"content\":\"<s>\",\"shape\":1"), "\"shape\""},
    {WITH("\"added_tokens\":[{\"id\":4,\"content\":\"x\"}]"), "single_word"},
    {WITH("\"added_tokens\":7"), "added_tokens: must be a list"},
    {"{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,"
     "\"rstrip\":false,\"normalized\":false,\"special\":true}],"
     "\"model\":{\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]}}",
     "<s>"} /* it would get the id 2 */
};

static void names_what_it_refuses(void **state) {
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        oc_tokenizer *t = (oc_tokenizer *)&t;
        oc_error err = {.status = OC_OK};
        oc_status s = oc_tokenizer_parse(&t, r->json, strlen(r->json), NULL, 0, "T.json", &err);
        if (s != OC_OK && t == NULL && err.status == s && strncmp(err.message, "T.json:", 7) == 0 &&
            strstr(err.message, r->names) != NULL)
            continue;
        print_message("%s\n gives %d: %s\n not %s\n", r->json, s, err.message, r->names);
        if (s == OC_OK) oc_tokenizer_close(t);
        bad++;
    }
    assert_int_equal(bad, 0);
}

/* The same with nothing wrong is accepted, so that each refusal has the reason it claims. */
static void accepts_what_is_right(void **state) {
    (void)state;
    static const char *const right[] = {
        "{" MODEL("") "}",
        "{" MODEL("\"dropout\":null,\"end_of_word_suffix\":\"\",\"unk_token\":\"a\",") "}",
        WITH("\"truncation\":{\"max_length\":5},\"padding\":{\"x\":1},\"version\":\"1.0\""),
        WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]}"),
        WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"str_rep\":\"_\"}"),
        WITH("\"decoder\":{\"type\":\"Fuse\"}"),
        POST("{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"),
        ADDED("\"content\":\"<s>\""),
        SPLIT("(?i:'s|d)?|[^\\\\s\\\\p{L}-]{2,3}+|\\\\p{^Han}|a{,2}|\\\\u00e9[\\\\w-]"),
        VOCAB("\"a\":0,\"b\":1,\"ab\":3", "\"#version: 0.2\",\"a b\""),
        SPLIT("\\\\p{C}|[\\\\P{C}a]"),
        VOCAB("", ""),
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        oc_tokenizer *t;
        oc_error err;
        oc_status s = oc_tokenizer_parse(&t, right[i], strlen(right[i]), NULL, 0, "T.json", &err);
        if (s != OC_OK) fail_msg("%s: %s", right[i], err.message);
        oc_tokenizer_close(t);
    }
}

static void reports_a_character_that_has_no_token(void **state) {
    (void)state;
    static const char json[] = "{" MODEL("\"unk_token\":\"<unk>\",") "}";
    oc_tokenizer *t;
    oc_tokens x = {0};
    oc_error err = {0};
    assert_int_equal(oc_tokenizer_parse(&t, json, strlen(json), NULL, 0, "T.json", NULL), OC_OK);
    assert_int_equal(oc_tokenizer_encode(t, "ab", 2, OC_SPECIAL_NONE, &x, &err), OC_OK);
    assert_int_equal(x.n, 1);
    assert_int_equal(oc_tokenizer_encode(t, "abz", 3, OC_SPECIAL_NONE, &x, &err), OC_E_INVALID);
    assert_non_null(strstr(err.message, "unk_token"));
    assert_int_equal(x.n, 0);
    oc_tokens_free(&x);
    oc_tokenizer_close(t);
}

/* A regular expression that would search for ever is an error, not other ids. */
static void reports_a_regex_that_gives_up(void **state) {
    (void)state;
    static const char json[] = SPLIT("(?:a+)+c");
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!c";
    oc_tokenizer *t;
    oc_tokens x = {0};
    oc_error err = {0};
    assert_int_equal(oc_tokenizer_parse(&t, json, strlen(json), NULL, 0, "T.json", &err), OC_OK);
    oc_status s = oc_tokenizer_encode(t, text, sizeof text - 1, OC_SPECIAL_NONE, &x, &err);
    assert_int_equal(s, OC_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "T.json: pre_tokenizer: its regex gave up"));
    assert_int_equal(x.n, 0);
    oc_tokens_free(&x);
    oc_tokenizer_close(t);
}

/* --- tokenizer_config.json and directories */

static const char tiny[] = ADDED("\"content\":\"<s>\"");

static oc_tokenizer *with_config(const char *config, oc_error *err) {
    oc_tokenizer *t;
    oc_status s = oc_tokenizer_parse(&t, tiny, strlen(tiny), config, strlen(config), "T.json", err);
    assert_true((s == OC_OK) == (t != NULL));
    return t;
}

static void reads_special_tokens_and_templates(void **state) {
    (void)state;
    oc_error err = {0};
    oc_tokenizer *t = with_config("{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"ab\"},"
                                  "\"pad_token\":null,\"add_bos_token\":true,"
                                  "\"model_max_length\":1000000000000000019884624838656,"
                                  "\"chat_template\":\"{{ x }}\"}",
                                  &err);
    assert_non_null(t);
    assert_int_equal(oc_tokenizer_bos(t), 4);
    assert_int_equal(oc_tokenizer_eos(t), 2);
    assert_int_equal(oc_tokenizer_pad(t), -1);
    assert_string_equal(oc_tokenizer_bos_text(t), "<s>");
    assert_string_equal(oc_tokenizer_eos_text(t), "ab");
    assert_string_equal(oc_tokenizer_chat_template(t, false), "{{ x }}");
    assert_string_equal(oc_tokenizer_chat_template(t, true), "{{ x }}");
    assert_false(oc_tokenizer_pieces(t));
    assert_int_not_equal(oc_tokenizer_save(t, "/tmp", &err), OC_OK);
    oc_tokenizer_close(t);
    t = with_config("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"t\"},"
                    "{\"name\":\"default\",\"template\":\"d\"}]}",
                    &err);
    assert_string_equal(oc_tokenizer_chat_template(t, false), "d");
    assert_string_equal(oc_tokenizer_chat_template(t, true), "t");
    assert_string_equal(oc_tokenizer_bos_text(t), "");
    assert_int_equal(oc_tokenizer_bos(t), -1);
    oc_tokenizer_close(t);
    static const refusal wrong[] = {
        {"{\"bos_token\":\"<start>\"}", "<start>"},  {"{\"eos_token\":7}", "eos_token"},
        {"{\"pad_token\":{\"text\":\"x\"}", "JSON"}, {"{\"chat_template\":7}", "chat_template"},
        {"{\"chat_template\":[{}]}", "\"name\""},    {"[]", "object"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_null(with_config(wrong[i].json, &err));
        if (strstr(err.message, wrong[i].names) == NULL)
            fail_msg("%s: %s", wrong[i].json, err.message);
    }
}

static void opens_directories(void **state) {
    (void)state;
    text_dir d;
    oc_tokenizer *t;
    oc_error err = {0};
    text_dir_init(&d);
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_E_NOTFOUND);
    assert_non_null(strstr(err.message, d.dir));
    text_dir_put(&d, "tokenizer.model", "x", 1);
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "save_pretrained"));
    text_dir_put(&d, "tokenizer.json", tiny, strlen(tiny));
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_OK);
    assert_null(oc_tokenizer_chat_template(t, false));
    oc_tokenizer_close(t);
    static const char config[] = "{\"bos_token\":\"<s>\",\"chat_template\":\"config\"}";
    text_dir_put(&d, "tokenizer_config.json", config, strlen(config));
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_OK);
    assert_string_equal(oc_tokenizer_chat_template(t, false), "config");
    assert_int_equal(oc_tokenizer_bos(t), 4);
    oc_tokenizer_close(t);
    text_dir_put(&d, "chat_template.jinja", "file", 4);
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_OK);
    assert_string_equal(oc_tokenizer_chat_template(t, false), "file");
    oc_tokenizer_close(t);
    text_dir_put(&d, "tokenizer_config.json", "{", 1);
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_E_FORMAT);
    assert_non_null(strstr(err.message, "tokenizer_config.json"));
    assert_null(t);
    text_dir_put(&d, "chat_template.jinja", "a\0b", 3);
    assert_int_equal(oc_tokenizer_open(&t, d.dir, &err), OC_E_FORMAT);
    assert_non_null(strstr(err.message, "chat_template.jinja: U+0000"));
    assert_null(t);
    text_dir_release(&d);
}

/* What AutoTokenizer of transformers 5.24 gives for such directories: special_tokens_map.json wins,
 * null says that there is none, and a class has tokens of its own where nothing is named. */
#define MORE(id, text)                                                                             \
    "},{\"id\":" id ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"     \
    "false,\"special\":true,\"content\":\"" text "\""
#define FEW "\"content\":\"<|endoftext|>\""
static const char few[] = ADDED(FEW);
static const char many[] =
    ADDED(FEW MORE("5", "<bos>") MORE("6", "<eos>") MORE("7", "<pad>") MORE("8", "<|padding|>"));
static const char *const token_texts[] = {"a", "b", "ab", " ", "<|endoftext|>", "<bos>", "<eos>"};

static const struct {
    const char *json, *config, *map, *model;
    int32_t bos, eos, pad;
} directories[] = {
    {few, NULL, NULL, NULL, -1, -1, -1},
    {few, "{\"model_max_length\":1024}", NULL, "{\"model_type\":\"gpt2\"}", 4, 4, -1},
    {few, NULL, NULL, "{\"model_type\":\"opt\"}", 4, 4, -1},
    {few, NULL, NULL, "{\"model_type\":\"qwen2\"}", -1, 4, 4},
    {few, NULL, NULL, "{\"model_type\":\"qwen3\"}", -1, 4, 4},
    {few, NULL, NULL, "{\"model_type\":\"gpt_neox\"}", 4, 4, -1},
    {many, NULL, NULL, "{\"model_type\":\"gpt_neox\"}", 4, 4, 8},
    {few, NULL, NULL, "{\"model_type\":\"llama\"}", -1, -1, -1},
    {few, NULL, NULL, "{\"model_type\":\"gemma2\"}", -1, -1, -1},
    {many, NULL, NULL, "{\"model_type\":\"gemma2\"}", 5, 6, 7},
    {many, NULL, NULL, "{\"model_type\":\"gemma3_text\"}", 5, 6, 7},
    {few, "{\"tokenizer_class\":\"GPT2TokenizerFast\"}", NULL, NULL, 4, 4, -1},
    {many, "{\"tokenizer_class\":\"CodeGenTokenizer\"}", NULL, NULL, 4, 4, -1},
    {few, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", NULL, "{\"model_type\":\"gpt2\"}",
     -1, -1, -1},
    /* No class of the library, though its name begins as one's. */
    {few, "{\"tokenizer_class\":\"GPT2TokenizerOfMine\"}", NULL, NULL, -1, -1, -1},
    {few, "{\"eos_token\":null}", NULL, "{\"model_type\":\"gpt2\"}", 4, -1, -1},
    {few, NULL, "{\"eos_token\":{\"content\":\"ab\"}}", NULL, -1, 2, -1},
    {few, "{\"eos_token\":\"a\"}", "{\"eos_token\":\"ab\"}", NULL, -1, 2, -1},
    {few, "{\"eos_token\":\"a\"}", "{\"eos_token\":null}", NULL, -1, -1, -1},
};

static void finds_special_tokens_that_no_configuration_names(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        text_dir d;
        oc_tokenizer *t;
        oc_error err = {0};
        const char *const texts[] = {directories[i].json, directories[i].config, directories[i].map,
                                     directories[i].model};
        static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                            "special_tokens_map.json", "config.json"};
        text_dir_init(&d);
        for (size_t k = 0; k < 4; k++)
            if (texts[k] != NULL) text_dir_put(&d, names[k], texts[k], strlen(texts[k]));
        if (oc_tokenizer_open(&t, d.dir, &err) != OC_OK) fail_msg("%zu: %s", i, err.message);
        int32_t bos = oc_tokenizer_bos(t), eos = oc_tokenizer_eos(t), pad = oc_tokenizer_pad(t);
        if (bos != directories[i].bos || eos != directories[i].eos || pad != directories[i].pad)
            fail_msg("%zu: %d %d %d", i, bos, eos, pad);
        assert_string_equal(oc_tokenizer_bos_text(t), bos < 0 ? "" : token_texts[bos]);
        assert_string_equal(oc_tokenizer_eos_text(t), eos < 0 ? "" : token_texts[eos]);
        oc_tokenizer_close(t);
        text_dir_release(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_it_refuses),
        cmocka_unit_test(accepts_what_is_right),
        cmocka_unit_test(reports_a_character_that_has_no_token),
        cmocka_unit_test(reports_a_regex_that_gives_up),
        cmocka_unit_test(reads_special_tokens_and_templates),
        cmocka_unit_test(opens_directories),
        cmocka_unit_test(finds_special_tokens_that_no_configuration_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
