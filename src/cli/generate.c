/* generate.c - outcore generate: text on stdout, or answers into a file. */
#include "infer/generate.h"

#include "cli/cli.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stopped;

static void stop(int signal_number) { stopped = signal_number; }

/* A second signal ends the process, but for interrupts of a conversation, of which each ends an
 * answer. Ignored ones stay ignored. */
static void watch(int signal_number, bool again) {
    struct sigaction is, to;
    memset(&to, 0, sizeof to);
    to.sa_handler = stop;
    to.sa_flags = again ? 0 : (int)SA_RESETHAND;
    if (sigaction(signal_number, NULL, &is) == 0 && is.sa_handler != SIG_IGN)
        (void)sigaction(signal_number, &to, NULL);
}

int oc_cmd_generate(oc_config *c) {
    watch(SIGINT, c->gen.chat);
    watch(SIGTERM, false);
    watch(SIGHUP, false);
    return oc_generate(c, stdout, &stopped);
}
