/* signals.c - signals that end a run after what is under way. */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stopped;

static void stop(int signal_number) { stopped = signal_number; }

static void watch(int signal_number, bool again) {
    struct sigaction is, to;
    memset(&to, 0, sizeof to);
    to.sa_handler = stop;
    to.sa_flags = again ? 0 : (int)SA_RESETHAND;
    if (sigaction(signal_number, NULL, &is) == 0 && is.sa_handler != SIG_IGN)
        (void)sigaction(signal_number, &to, NULL);
}

volatile sig_atomic_t *oc_cli_watch(bool again) {
    watch(SIGINT, again);
    watch(SIGTERM, false);
    watch(SIGHUP, false);
    return &stopped;
}
