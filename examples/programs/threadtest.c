/*
 * The throughput of malloc and free with several threads, as threadtest measures it: in each round, each thread allocates
 * its share of N objects and frees them. One of the programs of Spring Buddy's evaluation, where objects have 1 KiB; the
 * trace `threadtest` is a recording of it.
 *
 *     cc -std=c11 -O2 -pthread examples/programs/threadtest.c -o target/threadtest
 *     target/threadtest [THREADS [ROUNDS [OBJECTS [BYTES]]]]
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

static long threads = 2, rounds = 50, objects = 30000, bytes = 1024;

static void *run(void *argument) {
    (void)argument;
    const long own = (objects + threads - 1) / threads;
    char **all = calloc((size_t)own, sizeof *all);
    if (!all) {
        return "no memory for the list of objects";
    }
    for (long round = 0; round < rounds; round++) {
        for (long at = 0; at < own; at++) {
            all[at] = malloc((size_t)bytes);
            if (!all[at]) {
                return "no memory for an object";
            }
            memset(all[at], 1, (size_t)bytes);
        }
        for (long at = 0; at < own; at++) {
            free(all[at]);
        }
    }
    free(all);
    return NULL;
}

int main(int count, char **arguments) {
    long *const given[] = {&threads, &rounds, &objects, &bytes};
    for (int at = 1; at < count; at++) {
        char *end;
        const long value = at <= 4 ? strtol(arguments[at], &end, 10) : 0;
        if (value <= 0 || *end) {
            fprintf(stderr, "usage: %s [THREADS [ROUNDS [OBJECTS [BYTES]]]], each at least 1\n", arguments[0]);
            return 2;
        }
        *given[at - 1] = value;
    }
    if (threads > MOST_THREADS) {
        fprintf(stderr, "%s: at most %d threads\n", arguments[0], MOST_THREADS);
        return 2;
    }
    pthread_t all[MOST_THREADS];
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long at = 0; at < threads; at++) {
        if (pthread_create(&all[at], NULL, run, NULL)) {
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
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    printf("%.3f s\n", seconds);
    return 0;
}
