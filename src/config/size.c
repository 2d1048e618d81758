#include "base/checked.h"
#include "config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct unit {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
};

static bool unit_of(const char *name, size_t n, uint64_t *bytes) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) != n || strncasecmp(units[i].name, name, n) != 0) continue;
        *bytes = units[i].bytes;
        return true;
    }
    return false;
}

/* Exact for whole numbers of a unit; a fraction is cut to whole bytes. */
static bool size_parse(const char *text, size_t n, uint64_t *bytes) {
    uint64_t whole = 0, unit, total;
    size_t i = 0;
    double fraction = 0, place = 0.1;
    for (; i < n && isdigit((unsigned char)text[i]); i++) {
        if (!oc_mul_u64(whole, 10, &whole)) return false;
        if (!oc_add_u64(whole, (uint64_t)(text[i] - '0'), &whole)) return false;
    }
    if (i == 0) return false;
    if (i < n && text[i] == '.') {
        size_t first = ++i;
        for (; i < n && isdigit((unsigned char)text[i]); i++, place /= 10)
            fraction += place * (text[i] - '0');
        if (i == first) return false;
    }
    if (i < n && text[i] == ' ') i++;
    if (!unit_of(text + i, n - i, &unit)) return false;
    if (!oc_mul_u64(whole, unit, &total)) return false;
    if (!oc_add_u64(total, (uint64_t)(fraction * (double)unit + 1e-6), &total)) return false;
    *bytes = total;
    return true;
}

bool oc_size_parse(const char *text, uint64_t *bytes) {
    return size_parse(text, strlen(text), bytes);
}

bool oc_pace_parse(const char *text, oc_lane *lane, double *bytes_per_second) {
    const char *equals = strchr(text, '=');
    char name[16];
    if (!equals || (size_t)(equals - text) >= sizeof name) return false;
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    size_t n = strlen(equals + 1);
    uint64_t bytes;
    oc_lane l;
    if (n < 2 || strcasecmp(equals + 1 + n - 2, "/s") != 0) return false;
    if (!size_parse(equals + 1, n - 2, &bytes) || bytes == 0 || !oc_lane_parse(name, &l))
        return false;
    *lane = l;
    *bytes_per_second = (double)bytes;
    return true;
}

const char *oc_size_format(uint64_t bytes, char *buf, size_t n) {
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) {
        snprintf(buf, n, "%llu B", (unsigned long long)bytes);
        return buf;
    }
    double x = (double)bytes / 1024;
    int i = 0;
    /* 1023.995 of a unit would print as 1024.00 */
    for (; x >= 1023.995 && i < 3; i++)
        x /= 1024;
    snprintf(buf, n, "%.2f %s", x, names[i]);
    return buf;
}
