/* fuzz_deepspeed.c - any bytes as a --config file: a configuration that resolves and reads back
 * from its own run.json as it was, or a message. */
#include "config/config.h"
#include "config/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds) {
    if (!holds) abort();
}

/* The least that a run needs beside the file. */
static oc_config *parsed(void) {
    char words[6][16] = {"--init", "m", "--data", "d", "--output", "o"}, *argv[6];
    for (int i = 0; i < 6; i++)
        argv[i] = words[i];
    oc_config *c = NULL;
    oc_error err = {.status = OC_OK};
    demand(oc_config_parse(&c, OC_CMD_TRAIN, 6, argv, NULL, &err) == OC_OK);
    return c;
}

static bool same(const oc_config *a, const oc_config *b) {
    bool all = true;
    for (size_t i = 0; i < oc_options_count(); i++) {
        const oc_option *o = oc_options_at(i);
        json_t *x = oc_option_json(a, o), *y = oc_option_json(b, o);
        all &= (!x && !y) || json_equal(x, y);
        json_decref(x);
        json_decref(y);
    }
    return all;
}

static void check_read_back(const oc_config *c, const char *path) {
    oc_error err = {.status = OC_OK};
    oc_config *again = parsed();
    demand(oc_config_write(c, NULL, path, &err) == OC_OK);
    demand(oc_config_read_deepspeed(again, path, 1, NULL, &err) == OC_OK);
    demand(oc_config_resolve(again, 1, NULL, &err) == OC_OK);
    demand(same(c, again));
    oc_config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[64];
    oc_config *c = parsed();
    oc_error err = {.status = OC_OK};
    static char said[1 << 16];
    FILE *notes = fmemopen(said, sizeof said, "w");
    demand(notes != NULL);
    const char *folder =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* no disk to wait for */
    if (!path[0]) snprintf(path, sizeof path, "%s/oc_fuzz_deepspeed_%d", folder, (int)getpid());
    oc_status s = oc_config_parse_deepspeed(c, (const char *)data, size, "ds.json", 1, notes, &err);
    demand(s == OC_OK || (err.status == s && strncmp(err.message, "ds.json", 7) == 0));
    if (s == OC_OK && oc_config_resolve(c, 1, notes, &err) == OC_OK) check_read_back(c, path);
    fclose(notes);
    (void)unlink(path);
    oc_config_free(c);
    return 0;
}
