/* What a run was asked to do: sizes, flags, DeepSpeed's keys, the batch equation, run.json, and a
 * table test: no option is without consequence (test_config_keys.c has those of keys).
 * Expected values are the documented defaults of Hugging Face's Trainer and of DeepSpeed, written
 * out. */
#include "config_case.h"
#include "model/program.h"

/* ---- sizes ---- */

static void sizes_and_rates_are_parsed_exactly_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"123", 123},
        {"0", 0},
        {"5B", 5},
        {"1.5GiB", 1610612736},
        {"100MB", 100000000},
        {"2KiB", 2048},
        {"3TB", 3000000000000},
        {"1TiB", 1099511627776},
        {"0.1GB", 100000000},
        {"18446744073709551615", UINT64_MAX},
        {"4 GiB", 4294967296},
    };
    static const char *const bad[] = {"",
                                      "GiB",
                                      "-1",
                                      "1.GB",
                                      ".5GB",
                                      "1e9",
                                      "10 ZiB",
                                      "1K",
                                      "12GBx",
                                      "99999999999TiB",
                                      "18446744073709551616"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 77;
        assert_true(oc_size_parse(good[i].text, &bytes));
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        assert_false(oc_size_parse(bad[i], &bytes));
        assert_true(bytes == 77);
    }
    oc_lane lane;
    double rate;
    assert_true(oc_pace_parse("d2h=2.5GB/s", &lane, &rate));
    assert_true(lane == OC_LANE_D2H && rate == 2.5e9);
    static const char *const bad_pace[] = {"h2d", "h2d=4GB", "h2d=0B/s", "bus=4GB/s", "=4GB/s"};
    for (size_t i = 0; i < sizeof bad_pace / sizeof *bad_pace; i++)
        assert_false(oc_pace_parse(bad_pace[i], &lane, &rate));
    char buf[32];
    assert_string_equal(oc_size_format(1023, buf, sizeof buf), "1023 B");
    assert_string_equal(oc_size_format(1610612736, buf, sizeof buf), "1.50 GiB");
    assert_string_equal(oc_size_format(1024 * 1024 - 1, buf, sizeof buf), "1.00 MiB");
}

/* ---- flags ---- */

static void defaults_are_those_of_the_contract(void **state) {
    (void)state;
    oc_config *c = parsed("--model m --data a.jsonl --output o");
    assert_int_equal(resolve(c), OC_OK);
    assert_true(c->optimizer == OC_ADAMW && c->lr == 5e-5 && c->beta1 == 0.9 && c->beta2 == 0.999);
    assert_true(c->eps == 1e-8 && c->weight_decay == 0 && c->clip == 1 && c->seed == 42);
    assert_true(c->schedule.kind == OC_LR_LINEAR && c->schedule.warmup_steps == 0);
    assert_true(c->epochs == 3 && c->max_steps == -1 && c->keep == 2);
    assert_true(c->shuffle && c->packing && !c->has_dtype && !c->resume);
    assert_true(c->micro_batch == 8 && c->grad_accum == 1 && c->train_batch == 8);
    assert_true(c->device_memory == UINT64_MAX && c->host_memory == UINT64_MAX);
    assert_true(c->resident_blocks == -1 && c->optimizer_ratio == 1);
    assert_true(c->n_freeze == 0 && c->n_train_only == 0 && c->token_tile == 0);
    oc_config_free(c);
}

static void flags_take_hugging_face_names_and_say_the_canonical_one(void **state) {
    (void)state;
    oc_config *c = parsed("--learning_rate 1e-4 --per-device-train-batch-size=4 --bf16 True "
                          "--gradient-accumulation-steps 2 --max-length 128 --num_train_epochs 1.5 "
                          "--fp16 False --adam-beta2 0.95 --lr-scheduler-type cosine");
    assert_true(c->lr == 1e-4 && c->micro_batch == 4 && c->grad_accum == 2);
    assert_true(c->seq_length == 128 && c->epochs == 1.5 && c->has_dtype && c->dtype == OC_BF16);
    assert_true(c->beta1 == 0.9 && c->beta2 == 0.95 && c->schedule.kind == OC_LR_COSINE);
    assert_non_null(strstr(notes_text, "--learning_rate is --lr\n"));
    assert_non_null(strstr(notes_text, "--bf16 is --dtype bf16\n"));
    assert_non_null(strstr(notes_text, "--fp16 is --dtype; \"False\" asks for nothing\n"));
    oc_config_free(c);
    c = parsed("--data a b --lr 1 --data c --betas 0.8 0.9 --resume --no-shuffle --pace h2d=1GB/s "
               "--pace d2h=2GB/s --micro-batch auto --overwrite=false");
    assert_true(c->n_data == 3 && strcmp(c->data[2], "c") == 0);
    assert_true(c->beta1 == 0.8 && c->beta2 == 0.9 && c->resume && !c->resume_path);
    assert_true(!c->shuffle && c->packing && !c->overwrite && c->micro_batch == 0);
    assert_true(c->pace[OC_LANE_H2D] == 1e9 && c->pace[OC_LANE_D2H] == 2e9);
    assert_true(oc_config_origin(c, "lr") == OC_FROM_FLAG);
    assert_true(oc_config_origin(c, "eps") == OC_FROM_DEFAULT);
    oc_config_free(c);
}

static void what_is_not_meant_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *line;
        oc_status status;
        const char *message;
    } rows[] = {
        {"--learing-rate 1", OC_E_INVALID, "--learing-rate"},
        {"--sed 1", OC_E_INVALID, "did you mean --seed"},
        {"--batch_size 4", OC_E_INVALID, "did you mean --micro-batch"},
        {"--batchsize 4", OC_E_INVALID, "did you mean --micro-batch"},
        {"--lr", OC_E_INVALID, "--lr needs a value"},
        {"--lr fast", OC_E_INVALID, "fast"},
        {"--lr nan", OC_E_INVALID, "nan"},
        {"--lr -1", OC_E_INVALID, "-1"},
        {"--micro-batch 1.5", OC_E_INVALID, "1.5"},
        {"--micro-batch 0", OC_E_INVALID, "0"},
        {"--seed -3", OC_E_INVALID, "-3"},
        {"--dtype int8", OC_E_INVALID, "int8"},
        {"--betas 0.9", OC_E_INVALID, "0.9"},
        {"--device-memory much", OC_E_INVALID, "much"},
        {"--weights-home nvme", OC_E_UNSUPPORTED, "nvme"},
        {"--weights-home moon", OC_E_INVALID, "moon"},
        {"--device cuda", OC_E_UNSUPPORTED, "--device cuda"},
        {"--nvme-path /x", OC_E_UNSUPPORTED, "--nvme-path"},
        {"--temperature 1", OC_E_INVALID, "--temperature is not an option of outcore train"},
        {"--schedule-steps 1", OC_E_INVALID, "--schedule-steps"},
        {"--optimizer-ratio 0.5", OC_E_INVALID, "--optimizer-ratio"},
        {"--grad-accum 1048577", OC_E_INVALID, "--grad-accum: 1048577 is outside 1 to 1048576"},
        {"--token-tile 0", OC_E_INVALID, "--token-tile: 0 is outside 1 to"},
        {"--token-tile -8", OC_E_INVALID, "--token-tile: -8 is outside 1 to"},
        {"--resident-blocks -1", OC_E_INVALID, "--resident-blocks: -1 is outside 0 to"},
        {"--resident-blocks some", OC_E_INVALID, "--resident-blocks: \"some\""},
        {"--freeze", OC_E_INVALID, "--freeze needs a value: PATTERN"},
        {"--fp16 --bf16 True", OC_E_INVALID, "--bf16 and --dtype fp16 contradict each other"},
        {"--bf16=yes", OC_E_INVALID, "\"yes\" is not true or false"},
        {"stray", OC_E_INVALID, "stray"},
    };
    oc_config *c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(&c, OC_CMD_TRAIN, rows[i].line), rows[i].status);
        if (!strstr(error.message, rows[i].message))
            fail_msg("%s: \"%s\"", rows[i].line, error.message);
    }
    assert_int_equal(parse(&c, OC_CMD_EVAL, "--lr 1"), OC_E_INVALID);
    assert_non_null(strstr(error.message, "not an option of outcore eval"));
    assert_int_equal(parse(&c, OC_CMD_PLAN, "generate --model m"), OC_OK);
    assert_int_equal(c->command, OC_CMD_PLAN_GENERATE);
    oc_config_free(c);
    assert_int_equal(parse(&c, OC_CMD_PLAN, "train --model m"), OC_OK);
    oc_config_free(c);
}

static void patterns_are_lists_and_blocks_may_stay_by_number(void **state) {
    (void)state;
    oc_config *c = parsed("--freeze *embed* model.layers.0.* --lr 1 --freeze=lm_head.weight "
                          "--resident-blocks 0 --resident_blocks auto");
    assert_true(c->n_freeze == 3 && strcmp(c->freeze[1], "model.layers.0.*") == 0);
    assert_string_equal(c->freeze[2], "lm_head.weight");
    assert_true(c->n_train_only == 0 && c->resident_blocks == -1);
    oc_config_free(c);
    static const oc_command commands[] = {OC_CMD_TRAIN, OC_CMD_PLAN, OC_CMD_EVAL, OC_CMD_GENERATE};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_int_equal(parse(&c, commands[i], "--resident-blocks 0"), OC_OK);
        assert_int_equal(c->resident_blocks, 0);
        oc_config_free(c);
    }
    assert_int_equal(parse(&c, OC_CMD_PLAN, "--train-only *.self_attn.*"), OC_OK);
    assert_int_equal(c->n_train_only, 1);
    oc_config_free(c);
    assert_int_equal(parse(&c, OC_CMD_EVAL, "--freeze x"), OC_E_INVALID);
}

/* A value that differs from the default, for any row of the table. */
static const char *sample(const oc_option *o) {
    switch (o->type) {
    case OC_T_ON:
    case OC_T_OFF:
        return "true";
    case OC_T_INT32:
    case OC_T_INT64:
    case OC_T_UINT64:
    case OC_T_INT_AUTO:
        return "3";
    case OC_T_REAL:
        return "0.25";
    case OC_T_PAIR:
        return "0.5,0.6";
    case OC_T_SIZE:
        return "64MiB";
    case OC_T_CHOICE:
        return o->choices[o->choices[2].text ? 2 : 1].text;
    case OC_T_DTYPE:
        return "fp16";
    case OC_T_DEVICE:
        return "cpu";
    case OC_T_PACE:
        return "h2d=4GB/s";
    default:
        return "word";
    }
}

static void every_option_changes_the_configuration_or_is_refused(void **state) {
    (void)state;
    char line[256];
    for (size_t i = 0; i < oc_options_count(); i++) {
        const oc_option *o = oc_options_at(i);
        oc_config *c, *plain;
        int command = 0;
        while (command < OC_CMD_COUNT && !(o->commands & OC_FOR(command)))
            command++;
        snprintf(line, sizeof line, "--%s=%s", o->name, sample(o));
        if (o->commands == OC_FOR_FILES) {
            /* a flag of that name may be a launcher's, which sets nothing */
            oc_status s = parse(&c, OC_CMD_TRAIN, line);
            assert_int_equal(s, strcmp(o->name, "zero-stage") == 0 ? OC_OK : OC_E_INVALID);
            oc_config_free(c);
            c = parsed("");
            assert_int_equal(oc_option_set(c, o, sample(o), OC_FROM_FILE, &error), OC_OK);
            if (o->offset == offsetof(oc_config, schedule.warmup_log)) /* on from the start */
                assert_int_equal(oc_option_set(c, o, "false", OC_FROM_FILE, &error), OC_OK);
        } else if (o->missing) {
            assert_int_equal(parse(&c, (oc_command)command, line), OC_E_UNSUPPORTED);
            assert_non_null(strstr(error.message, o->name));
            continue;
        } else {
            assert_true(*o->help && o->section);
            assert_int_equal(parse(&c, (oc_command)command, line), OC_OK);
        }
        assert_int_equal(parse(&plain, c->command, ""), OC_OK);
        if (same_json(c, plain)) fail_msg("%s changes nothing", o->name);
        oc_config_free(c);
        oc_config_free(plain);
    }
}

/* ---- the file ---- */

static void a_full_deepspeed_file_sets_what_it_says(void **state) {
    (void)state;
    oc_config *c = parsed("--model m --data d --output o");
    assert_int_equal(
        read_json(c,
                  "{\"train_batch_size\": 32, \"gradient_accumulation_steps\": 4,"
                  "\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_clipping\": 0.5,"
                  "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 3e-4, \"betas\": [0.8,"
                  "0.95], \"eps\": 1e-6, \"weight_decay\": \"auto\"}},"
                  "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": "
                  "1e-6, \"warmup_max_lr\": 2e-4, \"warmup_num_steps\": 1e2,"
                  "\"total_num_steps\": 500}},"
                  "\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": false, \"typo\": 1},"
                  "\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true,"
                  "\"stage3_max_live_parameters\": 1e9,"
                  "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true},"
                  "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.25}},"
                  "\"activation_checkpointing\": {\"cpu_checkpointing\": true},"
                  "\"wandb\": {\"enabled\": false, \"project\": \"x\"}}"),
        OC_OK);
    assert_int_equal(resolve(c), OC_OK);
    assert_true(c->train_batch == 32 && c->grad_accum == 4 && c->micro_batch == 8);
    assert_true(c->clip == 0.5 && c->optimizer == OC_ADAMW && c->lr == 3e-4);
    assert_true(c->beta1 == 0.8 && c->beta2 == 0.95 && c->eps == 1e-6 && c->weight_decay == 0);
    assert_true(c->schedule.kind == OC_LR_DS_WARMUP_DECAY && c->schedule.warmup_min_lr == 1e-6);
    assert_true(c->schedule.warmup_max_lr == 2e-4 && c->schedule.warmup_steps == 100);
    assert_true(c->schedule.total_steps == 500 && c->schedule.warmup_log);
    assert_true(c->has_dtype && c->dtype == OC_BF16 && c->zero_stage == 3);
    assert_true(c->weights_home == OC_HOME_HOST && c->optimizer_home == OC_HOME_HOST);
    assert_true(c->act_home == OC_HOME_HOST && c->optimizer_ratio == 0.25);
    oc_config_free(c);
}

static void one_line_lists_keys_without_effect_and_flags_win(void **state) {
    (void)state;
    oc_config *c = parsed("--lr 1e-3 --dtype fp32 --beta1 0.7 --train-batch 6");
    assert_int_equal(read_json(c,
                               "{\"train_batch_size\": 32, \"steps_per_print\": 100,"
                               "\"zero_optimization\": {\"reduce_bucket_size\": 5e8},"
                               "\"optimizer\": {\"params\": {\"lr\": 0.5, \"betas\": [0.1, 0.2]}},"
                               "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {"
                               "\"warmup_max_lr\": 0.5, \"warmup_type\": \"linear\"}},"
                               "\"fp16\": {\"enabled\": true, \"loss_scale_window\": 50}}"),
                     OC_OK);
    assert_non_null(strstr(notes_text, "no effect with 1 rank(s): steps_per_print, "
                                       "zero_optimization.reduce_bucket_size\n"));
    assert_non_null(strstr(notes_text, "--lr overrides"));
    assert_non_null(strstr(notes_text, "--dtype overrides"));
    assert_true(c->lr == 1e-3 && c->dtype == OC_F32 && c->train_batch == 6);
    assert_true(c->beta1 == 0.7 && c->beta2 == 0.2 && c->schedule.warmup_max_lr < 0);
    assert_true(c->schedule.warmup_steps == 1000 && !c->schedule.warmup_log);
    assert_true(c->loss_scale.window == 50);
    oc_config_free(c);
}

static void a_wrong_file_is_refused_with_the_key_and_the_nearest(void **state) {
    (void)state;
    static const struct {
        const char *json;
        oc_status status;
        const char *message;
    } rows[] = {
        {"{\"train_batch_sise\": 1}", OC_E_INVALID, "did you mean \"train_batch_size\""},
        {"{\"zero_optimization\": {\"stge\": 1}}", OC_E_INVALID, "zero_optimization.stge"},
        {"{\"zero_optimization\": {\"stage\": 4}}", OC_E_INVALID, "zero_optimization.stage"},
        {"{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}",
         OC_E_UNSUPPORTED, "offload_param.device nvme"},
        {"{\"optimizer\": {\"type\": \"Lion\"}}", OC_E_UNSUPPORTED, "Lion"},
        {"{\"optimizer\": {\"type\": \"Adamm\"}}", OC_E_INVALID, "Adam"},
        {"{\"scheduler\": {\"type\": \"CyclicLR\"}}", OC_E_UNSUPPORTED, "CyclicLR"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 5}}}",
         OC_E_INVALID, "total_num_steps"},
        {"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", OC_E_INVALID, "both"},
        {"{\"fp16\": {\"enabled\": 1}}", OC_E_INVALID, "fp16.enabled"},
        {"{\"wall_clock_breakdown\": true}", OC_E_UNSUPPORTED, "--trace"},
        {"{\"tensorboard\": {\"enabled\": true}}", OC_E_UNSUPPORTED, "tensorboard"},
        {"{\"gradient_clipping\": \"much\"}", OC_E_INVALID, "gradient_clipping"},
        {"{\"optimizer\": 5}", OC_E_INVALID, "optimizer"},
        {"{\"train_batch_size\": 1.5}", OC_E_INVALID, "train_batch_size"},
        {"{\"train_batch_size\": true}", OC_E_INVALID, "train_batch_size"},
        {"{\"train_batch_size\": 0}", OC_E_INVALID, "train_batch_size"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"ratio\": 1.5}}}", OC_E_INVALID,
         "offload_optimizer.ratio"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"ratio\": -0.1}}}", OC_E_INVALID,
         "outside 0 to 1"},
        {"[]", OC_E_INVALID, "top level"},
        {"{", OC_E_FORMAT, ""},
        {"{\"outcore\": {\"options\": {\"lrr\": 1}}}", OC_E_INVALID, "lrr"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = parsed("");
        assert_int_equal(read_json(c, rows[i].json), rows[i].status);
        if (!strstr(error.message, rows[i].message))
            fail_msg("%s: \"%s\"", rows[i].json, error.message);
        oc_config_free(c);
    }
}

/* Parameters mean something beside a type that is there only. */
static void a_type_that_is_not_there_is_named_without_its_parameters(void **state) {
    (void)state;
    static const struct {
        const char *json, *said, *unsaid;
    } rows[] = {
        {"{\"optimizer\": {\"params\": {\"freeze_step\": 9, \"lr\": \"fast\"}, \"type\": "
         "\"OneBitLamb\"}}",
         "optimizer.type OneBitLamb is not available", "optimizer.params"},
        {"{\"scheduler\": {\"params\": {\"T_max\": 9}, \"type\": \"CosineAnnealingLR\"}}",
         "scheduler.type CosineAnnealingLR is not available", "scheduler.params"},
        {"{\"optimizer\": {\"type\": \"Adamm\", \"params\": {\"xyz\": 1}}, \"gradient_clip\": 1}",
         "the nearest is Adam", "optimizer.params"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = parsed("");
        assert_true(read_json(c, rows[i].json) != OC_OK);
        if (!strstr(error.message, rows[i].said) || strstr(error.message, rows[i].unsaid))
            fail_msg("%s: \"%s\"", rows[i].json, error.message);
        oc_config_free(c);
    }
}

/* ---- resolving ---- */

static void any_two_batch_values_give_the_third(void **state) {
    (void)state;
    static const struct {
        const char *flags;
        int64_t train, micro, accum; /* train -1: refused */
    } rows[] = {
        {"", 8, 8, 1},
        {"--micro-batch 4", 4, 4, 1},
        {"--grad-accum 3", 24, 8, 3},
        {"--train-batch 12", 12, 12, 1},
        {"--train-batch 12 --micro-batch 4", 12, 4, 3},
        {"--train-batch 12 --grad-accum 4", 12, 3, 4},
        {"--micro-batch 2 --grad-accum 5", 10, 2, 5},
        {"--train-batch 10 --micro-batch 2 --grad-accum 5", 10, 2, 5},
        {"--train-batch 10 --micro-batch 2 --grad-accum 4", -1, 0, 0},
        {"--train-batch 10 --micro-batch 3", -1, 0, 0},
        {"--train-batch 10 --grad-accum 3", -1, 0, 0},
        {"--grad-accum 1048576", 8388608, 8, 1048576},
        {"--micro-batch 2 --train-batch 2097152", 2097152, 2, 1048576},
        {"--micro-batch 2 --train-batch 2097154", -1, 0, 0},
        {"--micro-batch auto", 0, 0, 1},
        {"--micro-batch auto --train-batch 16", 16, 0, 0},
        {"--micro-batch auto --train-batch 16 --grad-accum 2", 16, 8, 2},
        {"--micro-batch 999999999999999 --grad-accum 1048576", -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256];
        snprintf(line, sizeof line, "--model m --data d --output o %s", rows[i].flags);
        oc_config *c = parsed(line);
        oc_status s = resolve(c);
        assert_true((s == OC_OK) == (rows[i].train >= 0));
        if (s == OC_OK)
            assert_true(c->train_batch == rows[i].train && c->micro_batch == rows[i].micro &&
                        c->grad_accum == rows[i].accum);
        oc_config_free(c);
    }
}

static void a_command_without_what_it_needs_is_refused(void **state) {
    (void)state;
    static const struct {
        oc_command command;
        const char *line, *message;
    } rows[] = {
        {OC_CMD_TRAIN, "--data d --output o", "--model"},
        {OC_CMD_TRAIN, "--model m --init i --data d --output o", "exclude"},
        {OC_CMD_TRAIN, "--model m --output o", "--data"},
        {OC_CMD_TRAIN, "--model m --data d", "--output"},
        {OC_CMD_TRAIN, "--model m --data d --output o --epochs 0", "--epochs"},
        {OC_CMD_TRAIN, "--model m --data d --output o --eval-every 5", "--eval-data"},
        {OC_CMD_TRAIN, "--model m --data d --output o --betas 1,0.9", "--betas"},
        {OC_CMD_TRAIN, "--model m --data d --output o --resume --overwrite", "exclude"},
        {OC_CMD_TRAIN, "--model m --data d --output o --freeze a --train-only b",
         "--freeze and --train-only exclude"},
        {OC_CMD_TRAIN, "--model m --data d --output o --train-batch 2097153 --micro-batch 1",
         "train-batch 2097153 is 2097153 micro-batches of 1, more than a step's 1048576"},
        {OC_CMD_EVAL, "--model m", "--data"},
        {OC_CMD_PLAN, "", "--model"},
        {OC_CMD_INSPECT, "--json", "PATH"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c;
        assert_int_equal(parse(&c, rows[i].command, rows[i].line), OC_OK);
        assert_int_equal(resolve(c), OC_E_INVALID);
        if (!strstr(error.message, rows[i].message))
            fail_msg("%s: \"%s\"", rows[i].line, error.message);
        oc_config_free(c);
    }
    oc_config *c = parsed("--model m --data d --output o");
    assert_int_equal(oc_config_resolve(c, 2, NULL, &error), OC_E_UNSUPPORTED);
    oc_config_free(c);
    assert_int_equal(parse(&c, OC_CMD_PLAN, "--init config.json"), OC_OK);
    assert_int_equal(resolve(c), OC_OK);
    oc_config_free(c);
}

/* recompute takes a list of values beside its words, and writes it back. */
static void what_is_made_again_may_be_listed(void **state) {
    (void)state;
    oc_config *a = parsed("--model m --data x --output o --recompute up,logits,qkv"), *b, *c;
    assert_int_equal(a->recompute, OC_RECOMPUTE_LIST);
    assert_int_equal(a->recompute_list, 1u << OC_SAVED_QKV | 1u << OC_SAVED_UP | 32u);
    assert_int_equal(resolve(a), OC_OK);
    assert_int_equal(oc_config_write(a, NULL, file_path, &error), OC_OK);
    b = parsed("");
    assert_int_equal(oc_config_read_deepspeed(b, file_path, 1, NULL, &error), OC_OK);
    assert_int_equal(b->recompute, OC_RECOMPUTE_LIST);
    assert_int_equal(b->recompute_list, a->recompute_list);
    static const char *const wrong[] = {"--recompute ups", "--recompute up,,qkv",
                                        "--recompute full,up", "--recompute=", "--recompute up,"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse(&c, OC_CMD_TRAIN, wrong[i]), OC_E_INVALID);
        assert_non_null(strstr(error.message, "qkv, attention, mid, up, mlp, logits"));
    }
    oc_config_free(a);
    oc_config_free(b);
}

static void run_json_reads_back_as_it_was(void **state) {
    (void)state;
    oc_config *a =
        parsed("--model m --data x.jsonl y.jsonl --output o --lr 1.1e-5 --betas 0.85,0.9 "
               "--no-shuffle --micro-batch 3 --device-memory 1.5GiB --dtype bf16 "
               "--pace h2d=1.5GB/s --recompute full --threads 2 --seed 7 --keep 5 "
               "--optimizer sgd --clip-grad-norm 0 --weights-home host --max-steps 9 "
               "--trace-size 3MiB --early-updates off --debug-async "
               "--freeze *embed* lm_head.* --resident-blocks 4 --token-tile 512");
    assert_int_equal(read_json(a, "{\"fp16\": {\"enabled\": \"auto\", \"loss_scale\": 128},"
                                  "\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {"
                                  "\"total_num_steps\": 77, \"cos_min_ratio\": 0.1}}}"),
                     OC_OK);
    assert_int_equal(resolve(a), OC_OK);
    assert_int_equal(oc_config_write(a, NULL, file_path, &error), OC_OK);
    oc_config *b = parsed("");
    FILE *notes = notes_open();
    if (oc_config_read_deepspeed(b, file_path, 1, notes, &error) != OC_OK)
        fail_msg("%s", error.message);
    fclose(notes);
    assert_string_equal(notes_text, "");
    assert_int_equal(resolve(b), OC_OK);
    assert_true(same_json(a, b));
    assert_true(b->lr == 1.1e-5 && b->n_data == 2 && strcmp(b->data[1], "y.jsonl") == 0);
    assert_true(!b->shuffle && b->packing && b->clip == 0 && b->loss_scale.static_scale == 128);
    assert_true(b->schedule.total_steps == 77 && b->schedule.cos_min_ratio == 0.1);
    assert_true(b->n_freeze == 2 && strcmp(b->freeze[1], "lm_head.*") == 0);
    assert_true(b->resident_blocks == 4 && b->token_tile == 512);
    assert_true(b->trace_bytes == 3 << 20 && b->early_updates == OC_EARLY_OFF && b->debug_async);
    oc_config_free(b);
    b = parsed("--lr 2 --data z --train-only *norm*");
    assert_int_equal(oc_config_read_deepspeed(b, file_path, 1, NULL, &error), OC_OK);
    assert_true(b->lr == 2 && b->n_data == 1 && b->max_steps == 9);
    assert_int_equal(resolve(b), OC_OK);
    assert_non_null(strstr(notes_text, "--train-only overrides the file's freeze\n"));
    assert_true(b->n_freeze == 0 && b->n_train_only == 1);
    oc_config_free(a);
    oc_config_free(b);
}

static void a_flag_beats_what_run_json_says_by_another_name(void **state) {
    (void)state;
    oc_config *a = parsed("--init i --data d --output o --max-steps 9 --micro-batch 3 --overwrite "
                          "--quiet");
    assert_int_equal(resolve(a), OC_OK);
    assert_int_equal(a->train_batch, 3);
    assert_int_equal(oc_config_write(a, NULL, file_path, &error), OC_OK);
    oc_config *b = parsed("--model m --epochs 2 --micro-batch 5");
    assert_int_equal(oc_config_read_deepspeed(b, file_path, 1, NULL, &error), OC_OK);
    FILE *notes = notes_open();
    if (oc_config_resolve(b, 1, notes, &error) != OC_OK) fail_msg("%s", error.message);
    fclose(notes);
    assert_string_equal(notes_text, "--model overrides the file's init\n"
                                    "--epochs overrides the file's max-steps\n");
    assert_true(!b->init_dir && strcmp(b->model_dir, "m") == 0);
    assert_true(b->max_steps == -1 && b->micro_batch == 5 && b->train_batch == 5);
    /* how the first run was started is no part of what it was */
    assert_true(!b->overwrite && !b->quiet);
    oc_config_free(a);
    oc_config_free(b);
}

/* whichever of the two the file has */
static void a_flag_for_the_warmup_beats_the_file(void **state) {
    (void)state;
    static const struct {
        const char *flags, *json, *note;
        int64_t steps;
        double ratio;
    } rows[] = {
        {"--warmup-ratio 0.25", "{\"outcore\": {\"options\": {\"warmup-steps\": 5}}}",
         "--warmup-ratio overrides the file's warmup-steps\n", 0, 0.25},
        {"--warmup-steps 0", "{\"outcore\": {\"options\": {\"warmup-ratio\": 0.5}}}",
         "--warmup-steps overrides the file's warmup-ratio\n", 0, 0},
        {"--warmup-ratio 0.25", "{\"scheduler\": {\"type\": \"WarmupLR\"}}", "", 0, 0.25},
        {"--warmup-steps 3", "{\"scheduler\": {\"type\": \"WarmupLR\"}}", "", 3, 0},
        {"", "{\"scheduler\": {\"type\": \"WarmupLR\"}}", "", 1000, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256];
        snprintf(line, sizeof line, "--model m --data d --output o %s", rows[i].flags);
        oc_config *c = parsed(line);
        assert_int_equal(read_json(c, rows[i].json), OC_OK);
        assert_int_equal(resolve(c), OC_OK);
        assert_string_equal(notes_text, rows[i].note);
        assert_true(c->schedule.warmup_steps == rows[i].steps);
        assert_true(c->schedule.warmup_ratio == rows[i].ratio);
        oc_config_free(c);
    }
}

static void a_misspelt_alias_names_the_canonical_option(void **state) {
    (void)state;
    assert_string_equal(oc_options_nearest("learning_rte", 12, OC_CMD_TRAIN), "lr");
    assert_string_equal(oc_options_nearest("gradient-accumulation-stps", 26, OC_CMD_TRAIN),
                        "grad-accum");
    assert_null(oc_options_nearest("learning_rte", 12, OC_CMD_INSPECT));
    assert_null(oc_options_nearest("zzzz", 4, OC_CMD_TRAIN));
}

static void updates_before_all_gradients_are_known_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *flags, *needs; /* NULL: accepted */
    } rows[] = {
        {"", "needs --clip-grad-norm 0:"},
        {"--clip-grad-norm 0", NULL},
        {"--clip-grad-norm 0 --dtype bf16 --micro-batch auto --train-batch 8", NULL},
        {"--clip-grad-norm 0 --grad-accum 2", "needs --grad-accum 1:"},
        {"--clip-grad-norm 0 --train-batch 8 --micro-batch 4", "needs --grad-accum 1:"},
        {"--grad-accum 2", "needs --clip-grad-norm 0, --grad-accum 1:"},
        {"--clip-grad-norm 0 --dtype fp16", "needs --dtype bf16 or fp32:"},
        {"--dtype fp16 --grad-accum 2",
         "needs --clip-grad-norm 0, --grad-accum 1, --dtype bf16 or fp32:"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256];
        snprintf(line, sizeof line, "--model m --data d --output o --early-updates on %s",
                 rows[i].flags);
        oc_config *c = parsed(line);
        assert_int_equal(resolve(c), rows[i].needs ? OC_E_UNSUPPORTED : OC_OK);
        if (rows[i].needs && !strstr(error.message, rows[i].needs))
            fail_msg("%s: \"%s\"", rows[i].flags, error.message);
        oc_config_free(c);
        /* where it is left to the planner, or off, nothing is refused */
        snprintf(line, sizeof line, "--model m --data d --output o --early-updates %s %s",
                 i % 2 ? "auto" : "off", rows[i].flags);
        c = parsed(line);
        assert_int_equal(resolve(c), OC_OK);
        oc_config_free(c);
    }
}

static void the_size_of_a_trace_goes_with_one(void **state) {
    (void)state;
    static const char note[] = "--trace-size has an effect with --trace only\n";
    static const oc_command commands[] = {OC_CMD_TRAIN, OC_CMD_EVAL, OC_CMD_PLAN};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        oc_config *c;
        assert_int_equal(parse(&c, commands[i], "--model m --data d"), OC_OK);
        assert_int_equal(c->trace_bytes, 16 << 20);
        oc_config_free(c);
        assert_int_equal(parse(&c, commands[i], "--model m --data d --trace-size 1MiB"), OC_OK);
        assert_int_equal(c->trace_bytes, 1 << 20);
        if (commands[i] == OC_CMD_TRAIN) c->output = strdup("o");
        assert_int_equal(resolve(c), OC_OK);
        assert_non_null(strstr(notes_text, note));
        c->trace_path = strdup("t.json");
        assert_int_equal(resolve(c), OC_OK);
        assert_null(strstr(notes_text, note));
        oc_config_free(c);
    }
    oc_config *c;
    assert_int_equal(parse(&c, OC_CMD_TRAIN, "--trace-size 100"), OC_E_INVALID);
    assert_non_null(strstr(error.message, "--trace-size"));
}

static void an_output_directory_in_use_is_not_replaced(void **state) {
    (void)state;
    char dir[] = "/tmp/oc_output_XXXXXX", path[64], line[256];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/checkpoint-10", dir);
    static const struct {
        const char *flags;
        oc_status empty, used;
    } rows[] = {
        {"", OC_OK, OC_E_EXISTS},
        {"--overwrite", OC_OK, OC_OK},
        {"--resume", OC_OK, OC_E_UNSUPPORTED},
        {"--resume somewhere", OC_E_UNSUPPORTED, OC_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(line, sizeof line, "--output %s %s", dir, rows[i].flags);
        oc_config *c = parsed(line);
        FILE *notes = notes_open();
        assert_int_equal(oc_config_check_output(c, notes, &error), rows[i].empty);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fclose(f);
        assert_int_equal(oc_config_check_output(c, notes, &error), rows[i].used);
        fclose(notes);
        unlink(path);
        oc_config_free(c);
    }
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_rates_are_parsed_exactly_or_refused),
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(flags_take_hugging_face_names_and_say_the_canonical_one),
        cmocka_unit_test(what_is_not_meant_is_refused_by_name),
        cmocka_unit_test(patterns_are_lists_and_blocks_may_stay_by_number),
        cmocka_unit_test(every_option_changes_the_configuration_or_is_refused),
        cmocka_unit_test(a_full_deepspeed_file_sets_what_it_says),
        cmocka_unit_test(one_line_lists_keys_without_effect_and_flags_win),
        cmocka_unit_test(a_type_that_is_not_there_is_named_without_its_parameters),
        cmocka_unit_test(a_wrong_file_is_refused_with_the_key_and_the_nearest),
        cmocka_unit_test(any_two_batch_values_give_the_third),
        cmocka_unit_test(a_command_without_what_it_needs_is_refused),
        cmocka_unit_test(what_is_made_again_may_be_listed),
        cmocka_unit_test(run_json_reads_back_as_it_was),
        cmocka_unit_test(a_flag_beats_what_run_json_says_by_another_name),
        cmocka_unit_test(a_flag_for_the_warmup_beats_the_file),
        cmocka_unit_test(a_misspelt_alias_names_the_canonical_option),
        cmocka_unit_test(updates_before_all_gradients_are_known_are_refused_by_name),
        cmocka_unit_test(the_size_of_a_trace_goes_with_one),
        cmocka_unit_test(an_output_directory_in_use_is_not_replaced),
    };
    return cmocka_run_group_tests_name("train_config", tests, make_file, remove_file);
}
