#include "config/problems.h"

#include <stdio.h>
#include <string.h>

/* Behind what is there; false: no room. */
static bool append(char *text, size_t bytes, const char *between, const char *more) {
    size_t at = strlen(text);
    if (at + strlen(between) + strlen(more) + 1 > bytes) return false;
    (void)snprintf(text + at, bytes - at, "%s%s", at ? between : "", more);
    return true;
}

void oc_problems_add(oc_problems *p, const char *name, const oc_error *e) {
    const char *more = e->message;
    size_t n = strlen(p->lead);
    if (p->count > 0 && n > 0 && strncmp(more, p->lead, n) == 0) more += n;
    p->status = p->count == 0 || p->status == e->status ? e->status : OC_E_INVALID;
    p->count++;
    if (!*p->names && append(p->text, sizeof p->text, "; ", more)) return;
    (void)append(p->names, sizeof p->names, ", ", name);
}

oc_status oc_problems_tell(const oc_problems *p, const char *tail, oc_error *err) {
    if (p->count == 0) return OC_OK;
    return oc_fail(err, p->status, "%s%s%s%s", p->text, *p->names ? "; and " : "", p->names, tail);
}

bool oc_problems_may_go_on(oc_status s) {
    return s == OC_E_INVALID || s == OC_E_UNSUPPORTED || s == OC_E_NOTFOUND;
}
