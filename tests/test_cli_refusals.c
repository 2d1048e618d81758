/* The program refuses what cannot work before step 1: exit status 2, a message that names the
 * thing, and an output directory that is as it was. */
#include "cli_case.h"

#define RUN CLI_TRAIN "--max-steps 2 --output o "

typedef struct row {
    const char *line, *words;
} row;

static void refuse_all(const row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cli_expect(rows[i].line, 2, rows[i].words);
        if (cli_exists("o")) fail_msg("outcore %s\nleft o: %s", rows[i].line, cli_list("o"));
        assert_int_equal(cli_bytes("stdout"), 0);
    }
}
#define REFUSE(rows) refuse_all(rows, sizeof(rows) / sizeof *(rows))

static void options_that_are_not_meant_are_refused_by_name(void **state) {
    (void)state;
    static const row rows[] = {
        {RUN "--lrr 3", "--lrr|did you mean --lr"},
        {RUN "--learning-rte 3", "--learning-rte|did you mean --lr"},
        {RUN "--device-memry 1GiB", "did you mean --device-memory"},
        {RUN "--lr abc", "--lr|abc"},
        {RUN "--lr", "--lr needs a value"},
        {RUN "--lr nan", "--lr|nan"},
        {RUN "--dtype int8", "--dtype|int8|bf16"},
        {RUN "--device-memory 12QB", "--device-memory|12QB"},
        {RUN "--device-memory -5", "--device-memory|-5"},
        {RUN "--device-memory 0", "--device-memory|0"},
        {RUN "--device-memory 99999999999TiB", "--device-memory"},
        {RUN "--host-memory GiB", "--host-memory|GiB"},
        {RUN "--pace h2d=fast", "--pace|h2d=fast"},
        {RUN "--pace moon=1GB/s", "--pace|moon"},
        {RUN "--seq-length 1", "--seq-length|outside"},
        {RUN "--seq-length 1.5", "--seq-length|whole number"},
        {RUN "--micro-batch 0", "--micro-batch|outside"},
        {RUN "--micro-batch 99999999999", "99999999999"},
        {RUN "--max-steps 0", "--max-steps 0"},
        {RUN "--train-batch 7", "train-batch 7|micro-batch 2"},
        {RUN "--train-batch 8 --grad-accum 3", "train-batch 8|grad-accum 3|micro-batch 2"},
        {RUN "--betas 0.9", "--betas"},
        {RUN "--eval-every 1", "--eval-every|--eval-data"},
        {RUN "--keep 0", "--keep"},
        {RUN "--resume --overwrite", "--resume|--overwrite"},
        {"train --init m --model m --data d.txt --output o", "--model|--init"},
        {"train --data d.txt --output o", "--model|--init"},
        {"train --init m --output o", "--data"},
        {"train --init m --data d.txt", "--output"},
        {"eval --data d.txt", "--model"},
        {"plan", "--model"},
        {"inspect", "PATH"},
        {"trian", "trian|train"},
    };
    REFUSE(rows);
    cli_expect("", 2, "outcore train");
}

static void tensors_that_are_not_there_are_not_frozen(void **state) {
    (void)state;
    static const row rows[] = {
        {RUN "--freeze model.layer.0.*",
         "--freeze: \"model.layer.0.*\"|did you mean \"model.layers.0."},
        {RUN "--freeze *norm* *embed_token", "\"*embed_token\"|\"model.embed_tokens.weight\"?"},
        {RUN "--train-only wte.weight", "--train-only: \"wte.weight\"|model.embed_tokens.weight"},
        {RUN "--freeze model.* lm_head.weight", "--freeze|nothing is left to train"},
        {RUN "--freeze *norm* --train-only *embed*", "--freeze and --train-only exclude"},
        {"plan --init m --freeze *", "--freeze|nothing is left to train"},
    };
    REFUSE(rows);
}

static void what_comes_later_is_refused_by_name(void **state) {
    (void)state;
    static const row rows[] = {
        {"generate --model m --prompt x", "m has no tokenizer.json"},
        {"bench all", "bench|not available"},
        {"tokenize --model m --text x", "m has no tokenizer.json"},
        {RUN "--device cuda", "--device cuda|not available"},
        {RUN "--nvme-path .", "--nvme-path|not available"},
        {RUN "--io direct", "--io|not available"},
        {RUN "--optimizer-home nvme", "--optimizer-home nvme|not available"},
        {RUN "--temperature 1", "--temperature is not an option of outcore train"},
        {RUN "--resume o2", "--resume o2|not available"},
    };
    REFUSE(rows);
}

static void data_that_cannot_be_read_is_named_by_file_and_line(void **state) {
    (void)state;
#define DATA "train --init m --seq-length 32 --micro-batch 2 --max-steps 2 --output o --data "
    static const row rows[] = {
        {DATA "none.txt", "none.txt|No such file"},
        {DATA "empty.txt", "empty.txt|empty"},
        {DATA "empty.jsonl", "empty.jsonl|empty"},
        {DATA "id.jsonl", "id.jsonl:2|999|259"},
        {DATA "negative.jsonl", "negative.jsonl:1|-3"},
        {DATA "cut.jsonl", "cut.jsonl:2"},
        {DATA "none_left.jsonl", "none_left.jsonl"},
        {DATA "lengths.jsonl", "lengths.jsonl:1|labels"},
        {DATA "twice.jsonl", "twice.jsonl:1"},
        {DATA "d.txt d.csv", "d.csv|.jsonl"},
        {DATA "m", "m|.jsonl"},
        {DATA "d.txt --eval-data none.txt", "none.txt"},
        {DATA "fifo.txt", "fifo.txt|not a regular file"},
        {DATA "fifo.jsonl", "fifo.jsonl|not a regular file"},
    };
    assert_int_equal(mkfifo("fifo.txt", 0600), 0);
    assert_int_equal(mkfifo("fifo.jsonl", 0600), 0);
    cli_text("empty.txt", "");
    cli_text("empty.jsonl", "");
    cli_text("id.jsonl", "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 999, 3]}\n");
    cli_text("negative.jsonl", "{\"input_ids\": [1, -3, 3]}\n");
    cli_text("cut.jsonl", "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 2,\n");
    cli_text("none_left.jsonl", "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n");
    cli_text("lengths.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [1, 2]}\n");
    cli_text("twice.jsonl", "{\"input_ids\": [1, 2], \"input_ids\": [3, 4]}\n");
    cli_seconds = 60;
    REFUSE(rows);
    cli_seconds = 0;
    assert_string_equal(cli_list("m"), "config.json");
}

/* The config with one value in place of another. */
static void with_config(const char *old, const char *new) {
    char text[2048];
    const char *at = strstr(cli_config, old);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - cli_config), cli_config, new,
             at + strlen(old));
    cli_text("c.json", text);
}

static void a_config_that_is_no_model_is_refused_with_its_key(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *words;
    } rows[] = {
        {"\"hidden_size\": 32", "\"hidden_size\": 33", "c.json|hidden size 33"},
        {"\"hidden_size\": 32", "\"hidden_size\": \"32\"", "c.json|hidden_size"},
        {"\"hidden_size\": 32", "\"hidden_size\": -32", "c.json|hidden_size"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "c.json|num_key_value_heads"},
        {"\"vocab_size\": 259", "\"vocab_size\": 99999999999999999", "c.json|vocab_size"},
        {"\"vocab_size\": 259", "\"vocab_size\": 258", "258|byte tokenizer"},
        {"\"model_type\": \"llama\"", "\"model_type\": \"lama\"", "c.json|lama"},
        {"LlamaForCausalLM", "GPT2LMHeadModel", "GPT2LMHeadModel|llama"},
        {"\"model_type\": \"llama\",", "\"model_type\": \"llama\", \"model_type\": \"gpt2\",",
         "c.json|model_type"},
        {"1e-05", "1e-05, \"rope_scaling\": {\"rope_type\": \"moon\"}", "c.json|moon"},
        {"{\"model", "{{\"model", "c.json:1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        with_config(rows[i].old, rows[i].new);
        cli_expect("train --init c.json --data d.txt --max-steps 1 --output o", 2, rows[i].words);
        assert_string_equal(cli_list("o"), "absent");
    }
    cli_expect("train --init nowhere --data d.txt --output o", 2, "nowhere");
    cli_expect("train --init m --seq-length 9999999 --data d.txt --output o", 2, "host memory");
}

/* ---- weights ---- */

typedef struct weights {
    char *bytes; /* the file */
    size_t n, header;
    json_t *json; /* the header */
} weights;

static weights load_weights(const char *path) {
    weights w = {malloc(1 << 20), 0, 0, NULL};
    uint64_t header = 0;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    w.n = fread(w.bytes, 1, 1 << 20, f);
    fclose(f);
    memcpy(&header, w.bytes, 8);
    w.header = (size_t)header;
    w.json = json_loadb(w.bytes + 8, w.header, 0, NULL);
    assert_non_null(w.json);
    return w;
}

/* The header as it is now, and the first `n` bytes of data. */
static void store_weights(const weights *w, const char *path, const char *header, size_t n) {
    char *text = header ? strdup(header) : json_dumps(w->json, JSON_COMPACT);
    uint64_t length = strlen(text);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&length, 8, 1, f);
    fwrite(text, 1, length, f);
    fwrite(w->bytes + 8 + w->header, 1, n, f);
    fclose(f);
    free(text);
}

static void release_weights(weights *w) {
    json_decref(w->json);
    free(w->bytes);
}

#define NORM "model.layers.1.input_layernorm.weight"
#define FROM_X                                                                                     \
    "train --model x --data d.txt --seq-length 32 --micro-batch 2 --max-steps 1 --output o"

static void damaged_weights_are_refused_with_file_and_tensor(void **state) {
    (void)state;
    cli_make_model("x");
    weights w = load_weights("x/model.safetensors");
    size_t data = w.n - 8 - w.header;
    json_t *norm = json_object_get(w.json, NORM), *shape = json_object_get(norm, "shape");
    json_t *offsets = json_object_get(norm, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));

    store_weights(&w, "x/model.safetensors", NULL, data - 100);
    cli_expect(FROM_X, 2, "x/model.safetensors|truncated");
    cli_write("x/model.safetensors", w.bytes, 7);
    cli_expect(FROM_X, 2, "x/model.safetensors|7 bytes");
    cli_write("x/model.safetensors", w.bytes, 100);
    cli_expect(FROM_X, 2, "x/model.safetensors|truncated");

    json_array_set_new(offsets, 0, json_integer(begin - 32));
    json_array_set_new(shape, 0, json_integer(40));
    store_weights(&w, "x/model.safetensors", NULL, data);
    cli_expect(FROM_X, 2, "x/model.safetensors|overlaps");
    json_array_set_new(offsets, 0, json_integer(begin));
    store_weights(&w, "x/model.safetensors", NULL, data);
    cli_expect(FROM_X, 2, "x/model.safetensors|" NORM "|160");
    json_array_set_new(shape, 0, json_integer(16));
    json_array_append_new(shape, json_integer(2));
    store_weights(&w, "x/model.safetensors", NULL, data);
    cli_expect(FROM_X, 2, NORM "|[16, 2]|[32]");
    json_array_remove(shape, 1);
    json_array_set_new(shape, 0, json_integer(1ll << 62));
    store_weights(&w, "x/model.safetensors", NULL, data);
    cli_expect(FROM_X, 2, "x/model.safetensors|" NORM);
    json_array_set_new(shape, 0, json_integer(32));

    json_object_set(w.json, "model.unknown.weight", norm);
    json_object_del(w.json, NORM);
    store_weights(&w, "x/model.safetensors", NULL, data);
    cli_expect(FROM_X, 2, NORM);
    store_weights(&w, "x/model.safetensors",
                  "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                  4);
    cli_expect(FROM_X, 2, "x/model.safetensors|twice");
    remove("x/model.safetensors");
    cli_expect(FROM_X, 2, "x|model.safetensors");
    cli_text("x/model.safetensors.index.json",
             "{\"weight_map\": {\"" NORM "\": \"model-00001-of-00002.safetensors\"}}");
    cli_expect(FROM_X, 2, "model-00001-of-00002.safetensors");
    assert_string_equal(cli_list("o"), "absent");
    release_weights(&w);
    cli_remove("x");
}

#define POINTER "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"

/* Each in a directory of its own, with config.json and without. */
static void what_is_no_safetensors_is_told_with_the_command_that_helps(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *words;
    } rows[] = {
        {"model.safetensors", POINTER,
         "y/model.safetensors is a git-lfs pointer|git -C y lfs pull"},
        {"model.safetensors.index.json", POINTER,
         "y/model.safetensors.index.json is a git-lfs pointer|git -C y lfs pull"},
        {"model.safetensors", "PK\3\4\24 archive", "is a PyTorch archive|save_pretrained"},
        {"model.safetensors", "<!DOCTYPE html><html></html>", "is a page of the web|hf download"},
        {"model.safetensors", "GGUF\3 and so on", "is a GGUF file"},
        {"pytorch_model.bin", "PK\3\4",
         "y holds weights as PyTorch archives (pytorch_model.bin)|"
         "M.from_pretrained('y', dtype='auto').save_pretrained('y')"},
        {"pytorch_model-00001-of-00002.bin", "PK\3\4", "(pytorch_model-00001-of-00002.bin)"},
        {"adapter_config.json", "{}", "y holds a PEFT adapter|merge_and_unload|'y-merged'"},
        {"adapter_model.safetensors", "x", "a PEFT adapter (adapter_model.safetensors)|merge"},
        {"consolidated.00.pth", "PK\3\4",
         "layout of the model's makers (consolidated.00.pth)|--exclude \"original/*\"|--local-dir "
         "y"},
        {"model.Q4_K_M.gguf", "GGUF", "a GGUF file|gguf_file='model.Q4_K_M.gguf'|'y-hf'"},
        {"model-00002-of-00003.safetensors", "x",
         "shards (model-00002-of-00003.safetensors) without their index|model.safetensors.index"},
        {"zero_to_fp32.py", "x", "a checkpoint of DeepSpeed|python y/zero_to_fp32.py y y-hf"},
        {"weights.safetensors", "x", "under another name|mv y/weights.safetensors"},
        {"lit_model.pth", "x", "a PyTorch archive (lit_model.pth)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[128];
        bool own = strncmp(rows[i].name, "model.safetensors", 17) == 0;
        snprintf(path, sizeof path, "y/%s", rows[i].name);
        mkdir("y", 0700);
        cli_text(path, rows[i].text);
        if (!own) cli_expect("train --model y --data d.txt --output o", 2, rows[i].words);
        cli_expect("inspect y", 2, rows[i].words);
        cli_text("y/config.json", cli_config);
        cli_text("i.jsonl", "{\"input_ids\": [5, 6, 7, 8]}\n");
        cli_expect("train --model y --data i.jsonl --seq-length 32 --output o", 2, rows[i].words);
        assert_string_equal(cli_list("o"), "absent");
        cli_remove("y");
    }
    cli_text("a.gguf", "GGUF\3");
    cli_expect("eval --model a.gguf --data d.txt", 2, "a.gguf is a GGUF file|gguf_file='a.gguf'");
    mkdir("y", 0700);
    cli_text("y/config.json", POINTER);
    cli_expect("plan --model y", 2, "y/config.json is a git-lfs pointer|git -C y lfs pull");
    cli_remove("y");
    mkdir("y", 0700);
    cli_expect("plan --model y", 2, "y/config.json: missing");
    cli_remove("y");
}

static double eval_loss(const char *line) {
    cli_result *r = cli_run(line);
    if (r->code != 0) fail_msg("outcore %s\n%s", line, cli_tail(r->err));
    json_t *j = json_loads(r->out, 0, NULL);
    double loss = json_number_value(json_object_get(j, "loss"));
    json_decref(j);
    return loss;
}

/* transformers loads such a checkpoint untied, and says so. */
static void a_tied_head_that_differs_is_not_tied_and_that_is_said(void **state) {
    (void)state;
#define EVAL_X "eval --model x --data d.txt --seq-length 32 --micro-batch 2 --json"
    static const char note[] = "config.json ties the head to the embedding, but";
    char text[2048];
    const char *at = strstr(cli_config, "\"tie_word_embeddings\": false");
    cli_remove("x");
    cli_make_model("x"); /* of a config that does not tie */
    double untied = eval_loss(EVAL_X);
    snprintf(text, sizeof text, "%.*s\"tie_word_embeddings\": true%s", (int)(at - cli_config),
             cli_config, at + strlen("\"tie_word_embeddings\": false"));
    cli_text("x/config.json", text);
    double same = eval_loss(EVAL_X);
    if (same < untied || same > untied) fail_msg("%.17g, not %.17g", same, untied);
    cli_expect(EVAL_X, 0, note);
    cli_expect("inspect x", 0, "");
    cli_expect(FROM_X, 0, note);
    weights w = load_weights("o/model.safetensors");
    assert_non_null(json_object_get(w.json, "lm_head.weight"));
    assert_non_null(json_object_get(w.json, "model.embed_tokens.weight"));
    release_weights(&w);
    json_t *saved = json_load_file("o/config.json", 0, NULL);
    assert_true(json_is_false(json_object_get(saved, "tie_word_embeddings")));
    json_decref(saved);
    cli_remove("o");
    /* random weights are what config.json says */
    cli_result *r = cli_run("plan --init x");
    assert_int_equal(r->code, 0);
    assert_null(strstr(r->err, note));
    cli_remove("x");
}

static void text_without_its_tokenizer_is_refused(void **state) {
    (void)state;
    cli_remove("x");
    cli_make_model("x");
    remove("x/tokenizer.json");
    cli_text("t.jsonl", "\n{\"text\": \"abc\"}\n");
    cli_text("i.jsonl", "{\"input_ids\": [5, 6, 7, 8]}\n");
    cli_expect(FROM_X, 2, "d.txt|x|--tokenizer bytes|save_pretrained");
    cli_expect("eval --model x --data i.jsonl t.jsonl", 2, "t.jsonl|--tokenizer bytes");
    cli_expect("eval --model x --data i.jsonl", 0, "");
    cli_expect("eval --model x --data t.jsonl --tokenizer bytes", 0, "");
    cli_expect("eval --model x --data i.jsonl --tokenizer m", 2, "--tokenizer m|tokenizer.json");
    cli_text("x/tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}");
    cli_expect(FROM_X, 2, "x/tokenizer.json");
    cli_remove("x");
}

/* What ids mean is not known then: no tokenizer is asked for, and none is written. */
static void rows_of_ids_need_no_tokenizer(void **state) {
    (void)state;
    static const char *const sizes[] = {"\"vocab_size\": 17", "\"vocab_size\": 5000"};
    cli_text("i.jsonl", "{\"input_ids\": [5, 6, 7, 8]}\n");
    for (int i = 0; i < 2; i++) {
        with_config("\"vocab_size\": 259", sizes[i]);
        cli_expect("train --init c.json --data i.jsonl --max-steps 1 --output o", 0, "");
        assert_string_equal(cli_list("o"), "config.json model.safetensors run.json");
        cli_remove("o");
    }
    cli_expect("train --init c.json --data i.jsonl --eval-data e.txt --max-steps 1 --output o", 0,
               "");
    assert_true(cli_exists("o/tokenizer.json"));
    cli_remove("o");
    with_config("\"vocab_size\": 259", sizes[0]);
    cli_expect("train --init c.json --tokenizer bytes --data i.jsonl --output o", 2,
               "17|byte tokenizer");
}

static void a_name_of_the_hub_is_looked_for_in_the_cache(void **state) {
    (void)state;
    assert_int_equal(setenv("HF_HUB_CACHE", "cache", 1), 0);
    cli_expect("eval --model tiny/llama --data d.txt", 2,
               "tiny/llama|cache|hf download tiny/llama");
    mkdir("cache", 0700);
    mkdir("cache/models--tiny--llama", 0700);
    mkdir("cache/models--tiny--llama/refs", 0700);
    mkdir("cache/models--tiny--llama/snapshots", 0700);
    cli_text("cache/models--tiny--llama/refs/main", "0a1b2c");
    cli_expect("eval --model tiny/llama --data d.txt", 2, "incomplete|hf download tiny/llama");
    cli_make_model("cache/models--tiny--llama/snapshots/0a1b2c");
    cli_expect("eval --model tiny/llama --data d.txt", 0,
               "--model tiny/llama is cache/models--tiny--llama/snapshots/0a1b2c");
    cli_text("cache/models--tiny--llama/refs/main", "../../../m");
    cli_expect("eval --model tiny/llama --data d.txt", 2, "incomplete");
    cli_expect("eval --model nowhere --data d.txt", 2, "nowhere");
    cli_expect("eval --model ./no/where --data d.txt", 2, "./no/where");
    unsetenv("HF_HUB_CACHE");
    cli_remove("cache");
}

/* ---- places ---- */

static void places_that_cannot_be_written_are_refused(void **state) {
    (void)state;
#define PLACE CLI_TRAIN "--max-steps 1 --output "
    cli_text("file", "x");
    cli_expect(PLACE "file", 2, "--output file");
    cli_expect(PLACE "file/o", 2, "--output file/o");
    cli_expect(PLACE "/proc/o", 2, "--output /proc/o");
    cli_expect(PLACE "o --log file/log", 2, "--log file/log");
    cli_expect(PLACE "o --trace file/trace", 2, "file/trace");
    cli_expect(PLACE "o --config none.json", 2, "none.json");
    cli_expect(PLACE "o/p/q --trace file/trace", 2, "file/trace");
    cli_expect(PLACE "./o//p/ --trace file/trace", 2, "file/trace");
    cli_expect(PLACE "o/p --log log.jsonl --trace file/trace", 2, "file/trace");
    assert_false(cli_exists("log.jsonl"));
    assert_string_equal(cli_list("o"), "absent");
    assert_int_equal(cli_bytes("file"), 1);
}

static void what_a_run_reads_it_does_not_write(void **state) {
    (void)state;
    cli_remove("x");
    cli_make_model("x");
    long long data = cli_bytes("d.txt"), model = cli_bytes("x/model.safetensors");
    long long config = cli_bytes("m/config.json");
    assert_int_equal(link("d.txt", "d2.txt"), 0);
    cli_text("ds.json", "{}");
#define X "train --model x --data d.txt --eval-data e.txt --max-steps 1 --output "
    static const row rows[] = {
        {X "x --overwrite", "--output x|--model"},
        {X "./x/../x/ --overwrite", "--output|--model"},
        {"train --init m --data d.txt --output m", "--output m|--init"},
        {"train --init m/config.json --data d.txt --output m", "--output m|--init"},
        {X "o --log d.txt", "--log d.txt|--data"},
        {X "o --log d2.txt", "--log d2.txt|--data"},
        {X "o --trace ./e.txt", "--trace ./e.txt|--eval-data"},
        {X "o --log x/config.json", "--log x/config.json|--model"},
        {X "o --trace x/model.safetensors", "--trace x/model.safetensors|--model"},
        {X "o --config ds.json --log ds.json", "--log ds.json|--config"},
        {X "o --log l --trace ./l", "--log|--trace|same file"},
        {X "o --log o/run.json", "--log o/run.json|--output"},
        {X "o --log o/model.safetensors", "--log o/model.safetensors|--output"},
        {"eval --model x --data d.txt --trace d.txt", "--trace d.txt|--data"},
        {"eval --model x --data d.txt --trace x/tokenizer.json", "--trace|--model"},
    };
    REFUSE(rows);
    assert_int_equal(cli_bytes("d.txt"), data);
    assert_int_equal(cli_bytes("x/model.safetensors"), model);
    assert_int_equal(cli_bytes("m/config.json"), config);
    assert_string_equal(cli_list("m"), "config.json");
    assert_false(cli_exists("l"));
    cli_remove("x");
}

static void budgets_that_are_too_small_say_what_fits(void **state) {
    (void)state;
    cli_expect(RUN "--device-memory 1MiB", 2, "--device-memory|fits");
    cli_expect(RUN "--host-memory 1MiB", 2, "--host-memory|fits");
    assert_string_equal(cli_list("o"), "absent");
    cli_result *r =
        cli_run("plan --init m --seq-length 32 --micro-batch 2 --threads 1 --device-memory "
                "1MiB");
    assert_int_equal(r->code, 2);
    char line[256], *fits = strstr(r->err, "; --device-memory ");
    assert_non_null(fits);
    unsigned long long bytes = strtoull(fits + 18, NULL, 10);
    snprintf(line, sizeof line, RUN "--quiet --device-memory %llu", bytes);
    cli_expect(line, 0, "");
    cli_remove("o");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_are_not_meant_are_refused_by_name),
        cmocka_unit_test(tensors_that_are_not_there_are_not_frozen),
        cmocka_unit_test(what_comes_later_is_refused_by_name),
        cmocka_unit_test(data_that_cannot_be_read_is_named_by_file_and_line),
        cmocka_unit_test(a_config_that_is_no_model_is_refused_with_its_key),
        cmocka_unit_test(damaged_weights_are_refused_with_file_and_tensor),
        cmocka_unit_test(what_is_no_safetensors_is_told_with_the_command_that_helps),
        cmocka_unit_test(a_tied_head_that_differs_is_not_tied_and_that_is_said),
        cmocka_unit_test(text_without_its_tokenizer_is_refused),
        cmocka_unit_test(rows_of_ids_need_no_tokenizer),
        cmocka_unit_test(a_name_of_the_hub_is_looked_for_in_the_cache),
        cmocka_unit_test(places_that_cannot_be_written_are_refused),
        cmocka_unit_test(what_a_run_reads_it_does_not_write),
        cmocka_unit_test(budgets_that_are_too_small_say_what_fits),
    };
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
