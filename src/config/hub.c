/* hub.c - the layout is huggingface_hub's: CACHE/models--ORG--NAME/{refs/main, snapshots/COMMIT/}.
 */
#include "config/hub.h"

#include "base/fs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, REF_BYTES = 256 };

static bool is_word(const char *text, size_t n) {
    if (n == 0 || text[0] == '.' || text[0] == '-') return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i])) return false;
    return true;
}

bool oc_hub_is_name(const char *text) {
    const char *slash = strchr(text, '/');
    return slash && is_word(text, (size_t)(slash - text)) && is_word(slash + 1, strlen(slash + 1));
}

/* HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub. */
static oc_status default_cache(char *out, oc_error *err) {
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    int n;
    if (cache && *cache)
        n = snprintf(out, PATH_BYTES, "%s", cache);
    else if (home && *home)
        n = snprintf(out, PATH_BYTES, "%s/hub", home);
    else
        n = snprintf(out, PATH_BYTES, "%s/.cache/huggingface/hub", user ? user : "");
    if (n < 0 || n >= PATH_BYTES)
        return oc_fail(err, OC_E_INVALID, "the path of the Hugging Face cache is too long");
    return OC_OK;
}

/* "models--ORG--NAME" of the cache; false: too long. */
static bool model_path(char *out, const char *cache, const char *name, const char *below) {
    const char *slash = strchr(name, '/');
    int n = snprintf(out, PATH_BYTES, "%s/models--%.*s--%s/%s", cache, (int)(slash - name), name,
                     slash + 1, below);
    return n > 0 && n < PATH_BYTES;
}

oc_status oc_hub_find(char **out, const char *name, const char *cache, oc_error *err) {
    char home[PATH_BYTES], path[PATH_BYTES], below[REF_BYTES + 16], *commit = NULL;
    size_t n = 0;
    if (!cache) {
        OC_TRY(default_cache(home, err));
        cache = home;
    }
    if (!model_path(path, cache, name, "refs/main"))
        return oc_fail(err, OC_E_INVALID, "the path of %s in the cache is too long", name);
    if (!oc_fs_exists(path))
        return oc_fail(
            err, OC_E_NOTFOUND,
            "%s is no directory, and not in the Hugging Face cache %s; download it with: "
            "hf download %s",
            name, cache, name);
    OC_TRY(oc_fs_read(&commit, &n, path, REF_BYTES, err));
    commit[strcspn(commit, " \t\r\n")] = 0;
    (void)snprintf(below, sizeof below, "snapshots/%s", commit);
    bool good = is_word(commit, strlen(commit)) && model_path(path, cache, name, below) &&
                oc_fs_is_directory(path);
    free(commit);
    if (!good)
        return oc_fail(err, OC_E_NOTFOUND,
                       "the snapshot of %s in the Hugging Face cache %s is incomplete; download it "
                       "again with: hf download %s",
                       name, cache, name);
    *out = strdup(path);
    return *out ? OC_OK : oc_fail(err, OC_E_MEMORY, "no memory for a path");
}
