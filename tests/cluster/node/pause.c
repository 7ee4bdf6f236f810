/* First process of a node and of a pod: waits for children that lost their parent, and for a signal to end. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

int main(void) {
    sigset_t signals;
    int signal;
    sigfillset(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    while (sigwait(&signals, &signal) == 0) {
        if (signal == SIGCHLD)
            while (waitpid(-1, NULL, WNOHANG) > 0) {}
        else if (signal == SIGTERM || signal == SIGINT)
            exit(0);
    }
    return 1;
}
