/* What other tools' command lines take, against the tables: the list comes from their own sources
 * (tools/make_tool_arguments.py), so that one we do not know of makes a test fail. And lines as
 * people paste them: what is accepted sets what it says, what is not is told all at once. */
#include "config_case.h"

typedef struct row {
    char tool[32], name[96], type[96], fallback[128];
} row;

static bool next_row(FILE *f, row *r) {
    char line[512];
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%31[^\t]\t%95[^\t]\t%95[^\t]\t%127[^\n]", r->tool, r->name,
                                r->type, r->fallback),
                         4);
        return true;
    }
    return false;
}

static FILE *open_rows(void) {
    FILE *f = fopen(OC_TEST_DATA "/tool_arguments.tsv", "r");
    assert_non_null(f);
    return f;
}

static const oc_option *option_of(const char *name) {
    const char *fixed;
    const oc_option *o = oc_options_find(name, strlen(name), &fixed);
    return o && o->commands != OC_FOR_FILES ? o : NULL;
}

static const oc_foreign_arg *foreign_of(const char *name) {
    return oc_foreign_find(name, strlen(name), OC_CMD_TRAIN);
}

/* Of a value that means nothing the row says why, with the name that was written. */
static void check_row(const row *r, const oc_foreign_arg *x) {
    char line[256];
    oc_config *c;
    snprintf(line, sizeof line, "--%s=xyzzy", r->name);
    oc_status s = parse(&c, OC_CMD_TRAIN, line);
    const char *said = s == OC_OK ? notes_text : error.message;
    oc_status want = !x->accepted ? OC_OK : x->option ? OC_E_INVALID : OC_E_UNSUPPORTED;
    const char *name = x->option ? x->option : strchr(x->name, '*') ? r->name : x->name;
    if (s != want || !strstr(said, name) || (!x->option && !strstr(said, x->why)))
        fail_msg("%s: %s: %d \"%s\"", r->tool, line, s, said);
    oc_config_free(c);
}

static void every_argument_of_other_tools_is_known(void **state) {
    (void)state;
    row r;
    int rows = 0, options = 0;
    FILE *f = open_rows();
    while (next_row(f, &r)) {
        const oc_option *o = option_of(r.name);
        const oc_foreign_arg *x = foreign_of(r.name);
        /* main.c's; and what is the micro-batch here and the whole batch there is asked back */
        bool other = strcmp(r.name, "help") == 0 || strcmp(r.name, "batch_size") == 0;
        if (!o && !x && !other)
            fail_msg("%s: %s (%s, %s) is unknown", r.tool, r.name, r.type, r.fallback);
        if (x) check_row(&r, x);
        options += o && !x;
        rows++;
    }
    fclose(f);
    assert_true(rows > 750 && options > 35);
}

/* What they do when nothing is said, and what is something else here: the loss, adapters, a part of
 * the rows held back. The line that sets it is refused. */
static const char *const differs[] = {
    "assistant_only_loss", /* TRL trains on all turns, LLaMA-Factory and we on the model's own */
    "validation_split_percentage",
    "dataset_text_field",
    "lora_*",
    "loraplus_*",
    "oft_*",
    "pissa_*",
    "bnb_*",
    "quantization_*",
    "double_quantization",
    "finetuning_type",
    "relora_*",
    "freeze_*",
    "reward_model_type",
    "pref_*",
    "kto_*",
    "simpo_*",
    "ppo_*",
    "galore_*",
    "apollo_*",
    "badam_*",
    "qgalore_*",
    "dion_*",
    "asft_*",
    "eaft_*",
    "mix_strategy",
    "lisa_*",
    "checkpointer.model_type",
    "optimizer_in_bwd",
    "micro_batch_size",
};

static bool is_like(const char *name, const char *pattern) {
    const char *star = strchr(pattern, '*');
    return star ? strncmp(name, pattern, (size_t)(star - pattern)) == 0
                : strcmp(name, pattern) == 0;
}

static bool does_differ(const char *name) {
    for (size_t i = 0; i < sizeof differs / sizeof *differs; i++)
        if (is_like(name, differs[i])) return true;
    return false;
}

static void their_defaults_are_accepted_where_they_are_ours(void **state) {
    (void)state;
    row r;
    char line[256];
    int tried = 0;
    FILE *f = open_rows();
    while (next_row(f, &r)) {
        const oc_foreign_arg *x = foreign_of(r.name);
        if (!x || strcmp(r.fallback, "-") == 0 || strchr(r.fallback, ' ')) continue;
        snprintf(line, sizeof line, "--%s=%s", r.name,
                 strcmp(r.fallback, "\"\"") == 0 ? "" : r.fallback);
        oc_config *c;
        oc_status s = parse(&c, OC_CMD_TRAIN, line);
        if (s != OC_OK && !does_differ(r.name)) fail_msg("%s: %s", line, error.message);
        oc_config_free(c);
        tried++;
    }
    fclose(f);
    assert_true(tried > 400);
}

/* Rows that none of these versions has: names of older ones, and of torch's own scripts. */
static const char *const older[] = {"per-gpu-eval-batch-size",
                                    "use-auth-token",
                                    "recipe-checkpoint",
                                    "deepspeed-mpi",
                                    "min-elastic-nodes",
                                    "max-elastic-nodes",
                                    "elastic-training",
                                    "comment",
                                    "account",
                                    "n-gpu",
                                    "dataset-batch-size",
                                    "num-of-sequences",
                                    "chars-per-token",
                                    "cache-path",
                                    "dataset-mixer",
                                    "checkpointing-steps",
                                    "use-reentrant",
                                    "use-liger",
                                    "with-tracking",
                                    "loss.*",
                                    "-component-",
                                    "device-map"};

static void every_row_is_an_argument_that_some_tool_has(void **state) {
    (void)state;
    for (size_t i = 0; i < oc_tools_count(); i++) {
        const oc_foreign_arg *x = oc_tools_at(i);
        row r;
        bool found = false;
        FILE *f = open_rows();
        while (!found && next_row(f, &r))
            found = foreign_of(r.name) == x;
        fclose(f);
        if (found) continue;
        for (size_t j = 0; j < sizeof older / sizeof *older; j++)
            found |= strstr(x->name, older[j]) != NULL;
        if (!found) fail_msg("row %s is nobody's", x->name);
    }
}

/* ---- lines as they are pasted ---- */

#define HERE "--model m --data d.jsonl --output o "

static void pasted_lines_set_what_they_say(void **state) {
    (void)state;
    static const struct {
        const char *line, *notes; /* with '|' between */
    } rows[] = {
        {"--model_name_or_path m --train_file d.jsonl --do_train --block_size 64 --output_dir o "
         "--per_device_train_batch_size 4 --overwrite_cache --preprocessing_num_workers 8 "
         "--low_cpu_mem_usage --use_fast_tokenizer False --trust_remote_code True",
         "--train_file is --data|--block_size is --seq-length|--low-cpu-mem-usage has no effect"},
        {"--model_name_or_path m --dataset_name d.jsonl --max_length 64 --packing "
         "--per_device_train_batch_size 4 --attn_implementation flash_attention_2 "
         "--dataset_num_proc 4 --output_dir o --dataset_train_split train --torch_dtype auto",
         "--dataset_name is --data|--packing is --no-packing false, the default"},
        {"--model_name_or_path m --data_path d.jsonl --model_max_length 64 --output_dir o "
         "--per_device_train_batch_size 4 --lazy_preprocess True --padding_side right --tf32 True",
         "--data_path is --data|--lazy-preprocess has no effect"},
        {"--stage sft --do_train --model_name_or_path m --dataset d.jsonl --finetuning_type full "
         "--cutoff_len 64 --per_device_train_batch_size 4 --output_dir o --flash_attn auto "
         "--preprocessing_num_workers 16 --plot_loss --ddp_timeout 180000000",
         "--dataset is --data|--cutoff_len is --seq-length|--stage asks for what happens"},
        {"--base-model m --datasets d.jsonl --sequence-len 64 --micro-batch-size 4 --output-dir o "
         "--sample-packing --pad-to-sequence-len --flash-attention --no-train-on-inputs",
         "--base-model is --model|--sequence-len is --seq-length|--train-on-inputs asks for"},
        {"--nproc_per_node 1 model=m data=d.jsonl tokenizer.max_seq_len=64 output_dir=o "
         "micro_batch=4 optimizer._component_=torch.optim.AdamW optimizer.fused=True "
         "dataset.packed=True compile=False gradient_accumulation_steps=1 clip_grad_norm=null "
         "enable_activation_checkpointing=True metric_logger.log_dir=logs",
         "tokenizer.max_seq_len is --seq-length|clip_grad_norm=null is as if it were absent"},
        {"--deepspeed --local_rank=0 --num_gpus 1 --master_port=29500 --include localhost:0 " HERE
         "--max_seq_len 64 --per_device_train_batch_size 4",
         "--deepspeed names no file|--num-gpus asks for what happens|--master-port has no effect"},
        {"--nnodes=1 --nproc-per-node=gpu --rdzv_backend c10d --standalone " HERE
         "--seq-length 64 --micro-batch 4 --no_dataloader_pin_memory",
         "--rdzv_backend has no effect|--dataloader-pin-memory has no effect"},
        {"--num_processes 1 --mixed_precision no --num_machines 1 --machine_rank 0 " HERE
         "--use_deepspeed --zero3_init_flag true --seq-length 64 --micro-batch 4",
         "--mixed-precision asks for what happens|--machine-rank has no effect"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = parsed(rows[i].line);
        if (strcmp(c->model_dir, "m") != 0 || c->n_data != 1 || strcmp(c->output, "o") != 0 ||
            strcmp(c->data[0], "d.jsonl") != 0 || c->seq_length != 64 || c->micro_batch != 4 ||
            !c->packing || c->has_dtype)
            fail_msg("%s sets something else", rows[i].line);
        char copy[256], *save = NULL;
        snprintf(copy, sizeof copy, "%s", rows[i].notes);
        for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save))
            if (!strstr(notes_text, w)) fail_msg("\"%s\" is not said: %s", w, notes_text);
        oc_config_free(c);
    }
}

static void names_of_data_sets_go_with_their_directory(void **state) {
    (void)state;
    oc_config *c = parsed("--model m --dataset org/one two --dataset_dir sets --output o");
    assert_string_equal(c->data[0], "org/one");
    assert_string_equal(c->dataset_dir, "sets");
    assert_int_equal(oc_config_resolve(c, 1, NULL, &error), OC_OK);
    oc_config_free(c);
    assert_int_equal(parse(&c, OC_CMD_EVAL, "--model m --data one --dataset-dir d --scores s"),
                     OC_OK);
    assert_int_equal(oc_config_resolve(c, 1, NULL, &error), OC_E_INVALID);
    assert_non_null(strstr(error.message, "not a name of --dataset-dir d"));
    oc_config_free(c);
}

static void what_asks_for_something_else_is_refused_all_at_once(void **state) {
    (void)state;
    static const struct {
        const char *line, *messages;
    } rows[] = {
        {HERE "--use_peft --lora_r 16 --lora_alpha 32 --load_in_4bit --bnb_4bit_quant_type nf4",
         "--use-peft true|--lora_r 16|--lora_alpha 32|--load-in-4bit|LoRA|--bnb_4bit_quant_type"},
        {HERE "--lrr 3 --max_samples 1000 --val_size 0.1 --neftun 5 --learning_rte 1 2 3",
         "--lrr: did you mean --lr|--max-samples 1000|head -n|--val-size 0.1|--eval-data|--neftun|"
         "--learning_rte: did you mean --lr; outcore train --help"},
        {HERE "--finetuning_type lora --stage dpo --template llama3 --quantization_bit 4",
         "--finetuning-type lora|--stage dpo|--template llama3|tokenizer_config.json|"
         "--quantization_bit 4"},
        {HERE "--num_gpus 8 --loss_type dft --assistant_only_loss False --dataset_text_field body",
         "--num-gpus 8|--grad-accum|--loss-type dft|--assistant-only-loss False|"
         "--dataset-text-field body|docs/data.md"},
        {HERE "--config recipe.yaml --lrr 3", "--lrr|recipe.yaml: --config takes|YAML is not read"},
        {"train.py config.yml --model m --lr fast --seed x --keep 0",
         "leave out the script|YAML is not read|fast|\"x\" is not a whole number|--keep"},
        {HERE "--aa 1 --ab 1 --ac 1 --ad 1 --ae 1 --af 1 --ag 1 --ah 1 --ai 1 --ak 1 --al 1 --am 1 "
              "--use_peft --use_dora --use_rslora --load_in_8bit --loss_type dft --stage rm "
              "--use_galore --use_badam --fp8 --tpu --use_fsdp --an 1 --ao 1 --ap 1",
         "--aa|--ab|--ac|--ad|--ae|--af|--ag|--ah|--ai|--ak|--al|--am|--use_peft|--use_dora|"
         "--use_rslora|--load_in_8bit|--loss_type|--stage|--use_galore|--use_badam|--fp8|--tpu|"
         "--use_fsdp|--an|--ao|--ap|outcore train --help"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c;
        char copy[512], *save = NULL;
        if (parse(&c, OC_CMD_TRAIN, rows[i].line) == OC_OK) fail_msg("%s passes", rows[i].line);
        snprintf(copy, sizeof copy, "%s", rows[i].messages);
        for (char *w = strtok_r(copy, "|", &save); w; w = strtok_r(NULL, "|", &save)) {
            char dashed[64];
            snprintf(dashed, sizeof dashed, "%s", w);
            for (char *p = dashed; *p; p++)
                if (*p == '_') *p = '-';
            if (!strstr(error.message, w) && !strstr(error.message, dashed))
                fail_msg("\"%s\" is not said: %s", w, error.message);
        }
    }
}

static void the_line_and_its_file_are_told_together(void **state) {
    (void)state;
    char line[256];
    oc_config *c;
    write_file("{\"train_batch_sise\": 1, \"steps_per_prin\": 2}");
    snprintf(line, sizeof line, "--modl m --config %s --lrr 1", file_path);
    assert_int_equal(parse(&c, OC_CMD_TRAIN, line), OC_E_INVALID);
    static const char *const said[] = {"--modl", "--lrr", "train_batch_sise", "steps_per_prin"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(error.message, said[i])) fail_msg("%s: %s", said[i], error.message);
}

static void switches_mean_what_they_mean_there(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool packing, shuffle, resume, bf16;
    } rows[] = {
        {"--packing False", false, true, false, false},
        {"--no-sample-packing --disable_shuffling", false, false, false, false},
        {"--dataset.packed=True shuffle=False", true, false, false, false},
        {"--resume_from_checkpoint True --bf16 1", true, true, true, true},
        {"--resume_from_checkpoint False --bf16 0", true, true, false, false},
        {"--mixed_precision bf16 --shuffle true", true, true, false, true},
        {"--no-bf16 --dtype auto", true, true, false, false},
        {"--bf16 auto", true, true, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = parsed(rows[i].line);
        if (c->packing != rows[i].packing || c->shuffle != rows[i].shuffle || c->resume_path ||
            c->resume != rows[i].resume || c->has_dtype != rows[i].bf16)
            fail_msg("%s", rows[i].line);
        oc_config_free(c);
    }
    oc_config *c = parsed("optimizer_in_bwd=True --activation_offloading");
    assert_true(c->early_updates == OC_EARLY_ON && c->act_home == OC_HOME_HOST);
    oc_config_free(c);
}

static void a_name_where_a_path_is_due_is_told_what_it_is(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"--model m --output o --dataset_name tatsu-lab/alpaca",
         "hf download --repo-type dataset tatsu-lab/alpaca"},
        {HERE "--eval_dataset org/name", "--eval-data org/name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = parsed(rows[i].line);
        assert_int_equal(resolve(c), OC_E_NOTFOUND);
        if (!strstr(error.message, rows[i].message)) fail_msg("%s", error.message);
        oc_config_free(c);
    }
}

/* ---- docs/from-elsewhere.md ---- */

/* The next indented block of the page, its lines joined where they go on; false: the end. */
static bool next_block(FILE *f, char *out, size_t bytes) {
    char line[512];
    out[0] = 0;
    while (fgets(line, sizeof line, f)) {
        bool code = strncmp(line, "    ", 4) == 0;
        size_t at = strlen(out);
        if (!code && at > 0) return true;
        if (!code) continue;
        char *more = strrchr(line, '\\');
        if (more) more[0] = 0;
        snprintf(out + at, bytes - at, "%s", line + 4);
    }
    return out[0] != 0;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* "key: value" as an option; of a list's element its path. */
static void yaml_words(const char *block, char *out, size_t bytes) {
    char copy[4096], *save = NULL;
    snprintf(copy, sizeof copy, "%s", block);
    out[0] = 0;
    for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        static const char path[] = "  - path: ";
        char *colon = strstr(l, ": ");
        size_t at = strlen(out);
        if (begins(l, path))
            snprintf(out + at, bytes - at, " --datasets=%s", l + sizeof path - 1);
        else if (colon && l[0] != ' ')
            snprintf(out + at, bytes - at, " --%.*s=%s", (int)(colon - l), l, colon + 2);
    }
}

/* What is left of a launch when launcher, script and torchtune's recipe are taken away. */
static void launch_words(const char *block, char *out, size_t bytes) {
    char copy[4096], *save = NULL;
    bool begun = false, recipe = begins(block, "tune "), skip = false;
    snprintf(copy, sizeof copy, "%s", block);
    out[0] = 0;
    for (char *w = strtok_r(copy, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        size_t at = strlen(out), n = strlen(w);
        begun |= begins(w, "--") || strchr(w, '=');
        bool script = n > 3 && strcmp(w + n - 3, ".py") == 0;
        bool config = recipe && strcmp(w, "--config") == 0;
        if (begun && !script && !config && !skip) snprintf(out + at, bytes - at, " %s", w);
        skip = config;
    }
}

/* Two files' lines of the page: do they give the same run? */
static void check_pair(const char *theirs, const char *ours) {
    char words[4096];
    oc_config *a, *b;
    b = parsed(ours + strlen("./outcore train "));
    if (resolve(b) != OC_OK) fail_msg("%s: %s", ours, error.message);
    if (begins(theirs, "model.name")) { /* keys of a file that has no counterpart on a line */
        oc_config_free(b);
        return;
    }
    if (strstr(theirs, "base_model: "))
        yaml_words(theirs, words, sizeof words);
    else
        launch_words(theirs, words, sizeof words);
    assert_true(strlen(words) < sizeof words - 1);
    a = parsed(words);
    if (resolve(a) != OC_OK) fail_msg("%s: %s", words, error.message);
    if (!same_json(a, b)) fail_msg("not the same run:\n%s\n%s", theirs, ours);
    oc_config_free(a);
    oc_config_free(b);
}

static void the_lines_of_the_page_give_the_same_run(void **state) {
    (void)state;
    char theirs[4096], ours[4096];
    int pairs = 0;
    FILE *f = fopen(OC_TEST_DATA "/../../docs/from-elsewhere.md", "r");
    assert_non_null(f);
    while (next_block(f, theirs, sizeof theirs)) {
        assert_true(next_block(f, ours, sizeof ours));
        if (!begins(ours, "./outcore train ")) fail_msg("no line of ours: %s", ours);
        check_pair(theirs, ours);
        pairs++;
    }
    fclose(f);
    assert_int_equal(pairs, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_argument_of_other_tools_is_known),
        cmocka_unit_test(their_defaults_are_accepted_where_they_are_ours),
        cmocka_unit_test(every_row_is_an_argument_that_some_tool_has),
        cmocka_unit_test(pasted_lines_set_what_they_say),
        cmocka_unit_test(names_of_data_sets_go_with_their_directory),
        cmocka_unit_test(what_asks_for_something_else_is_refused_all_at_once),
        cmocka_unit_test(the_line_and_its_file_are_told_together),
        cmocka_unit_test(switches_mean_what_they_mean_there),
        cmocka_unit_test(the_lines_of_the_page_give_the_same_run),
        cmocka_unit_test(a_name_where_a_path_is_due_is_told_what_it_is),
    };
    return cmocka_run_group_tests_name("train_config_tools", tests, make_file, remove_file);
}
