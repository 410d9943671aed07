/*
 * The latency of malloc and free with several threads, as linux-scalability measures it: each thread allocates N objects,
 * and frees them in the same order. One of the programs of Spring Buddy's evaluation; the trace `linux_scalability` is a
 * recording of it.
 *
 *     cc -std=c11 -O2 -pthread examples/programs/linux-scalability.c -o target/linux-scalability
 *     target/linux-scalability [OBJECTS [THREADS [BYTES]]]
 *
 * Every object is written once, as a program that uses it would.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 256 };

static long objects = 1000000, threads = 2, bytes = 512;

struct times {
    double allocate, free;
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *run(void *argument) {
    struct times *own = argument;
    char **all = calloc((size_t)objects, sizeof *all);
    if (!all) {
        return "no memory for the list of objects";
    }
    const double start = seconds();
    for (long at = 0; at < objects; at++) {
        all[at] = malloc((size_t)bytes);
        if (!all[at]) {
            return "no memory for an object";
        }
        memset(all[at], 1, (size_t)bytes);
    }
    const double middle = seconds();
    for (long at = 0; at < objects; at++) {
        free(all[at]);
    }
    own->allocate = middle - start;
    own->free = seconds() - middle;
    free(all);
    return NULL;
}

int main(int count, char **arguments) {
    long *const given[] = {&objects, &threads, &bytes};
    for (int at = 1; at < count; at++) {
        char *end;
        const long value = at <= 3 ? strtol(arguments[at], &end, 10) : 0;
        if (value <= 0 || *end) {
            fprintf(stderr, "usage: %s [OBJECTS [THREADS [BYTES]]], each at least 1\n", arguments[0]);
            return 2;
        }
        *given[at - 1] = value;
    }
    if (threads > MOST_THREADS) {
        fprintf(stderr, "%s: at most %d threads\n", arguments[0], MOST_THREADS);
        return 2;
    }
    pthread_t all[MOST_THREADS];
    struct times times[MOST_THREADS];
    for (long at = 0; at < threads; at++) {
        if (pthread_create(&all[at], NULL, run, &times[at])) {
            fprintf(stderr, "%s: cannot create thread %ld\n", arguments[0], at);
            return 1;
        }
    }
    for (long at = 0; at < threads; at++) {
        void *failure;
        pthread_join(all[at], &failure);
        if (failure) {
            fprintf(stderr, "%s: thread %ld: %s\n", arguments[0], at, (char *)failure);
            return 1;
        }
        printf("thread %ld: malloc %.0f ns, free %.0f ns\n", at, times[at].allocate * 1e9 / (double)objects,
               times[at].free * 1e9 / (double)objects);
    }
    return 0;
}
