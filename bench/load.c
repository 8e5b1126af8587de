/*
 * A neutral load generator for RocketMQ brokers: one thread, epoll, no allocation per message.
 *
 *   load PORT MODE CONNECTIONS IN_FLIGHT SECONDS BODY_SIZE TOPIC LIMIT
 *       [TOPIC_COUNT [QUEUE_COUNT [GROUP [BROKER]]]]
 *
 * MODE is send (310, one message a request), batch (320, 32 messages a request), pull (11, up to 32
 * messages a request, from offset 0 to LIMIT and around again; queue = connection number), or member:
 * the same pulls without a subscription, as push consumers make them. Another process has to send the
 * heartbeats of group "bench" for these. Mixed is, of sixteen requests, nine sends, five such pulls,
 * a heartbeat of that group and a commit of its offset.
 * Paced is sends, too: LIMIT of them a second on all connections together, whatever the broker does.
 * Its latencies count from when a send was due, so a pause shows in all that it kept waiting.
 * Replay sends the frames of the file TOPIC, again and again, until LIMIT of them are answered.
 * Pop (200050) takes up to 32 messages for GROUP, acknowledges them to BROKER with one batch (200151), and
 * pops again at once, as Java's push consumers do, unless acks of the pop before wait for their replies; pop1
 * acknowledges each message by itself (200051). IN_FLIGHT counts pops, each from a queue of its own, of
 * QUEUE_COUNT, or without these from any queue. LIMIT messages end it. Requests are pops; an error is whatever
 * reply has another code than 0, also that of a pop that finds nothing.
 * With TOPIC_COUNT, sends go in turns to TOPIC0, TOPIC1 and so on, always to queue 0; with QUEUE_COUNT,
 * and no topics to count, to that many queues of TOPIC.
 * Prints one JSON line: requests, messages, errors, seconds, body bytes read and percentiles in us.
 */
#define _GNU_SOURCE /* memmem */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, READ_SIZE = 1 << 20, WRITE_SIZE = 1 << 20, SAMPLES_MAX = 4 << 20 };
enum { QUEUES = 4, MIX = 16, INVISIBLE_MS = 60000 };
enum mode { SEND, SEND_BATCH, PULL, MIXED, HEARTBEAT, COMMIT, REPLAY, POP, POP_SINGLE };

struct popper {
    int acks_left;
    int is_waiting; /* for them */
};

struct connection {
    int fd;
    int queue;
    long next_offset;
    char *in, *out;
    size_t in_size, out_size, out_done;
    uint64_t *sent_at; /* ring of send times: replies of one connection come in order */
    unsigned head, tail;
    struct popper *poppers; /* as many as are in flight; the opaque of pops is twice the index of theirs */
};

static enum mode asked;
static const char *subscription = "\"sysFlag\":\"4\",\"subscription\":\"*\"";
static int in_flight, body_size;
static long offset_limit;
static const char *topic, *group = "bench", *broker = "bench";
static int is_paced;
static uint64_t due, interval; /* of paced sends, in ns */
static long topic_count, queue_count, turn_of_all;
static char body[8 << 20];
static char *frames; /* of a replay */
static size_t frames_size, frames_at;
static int32_t opaque;
static uint64_t sent, requests, errors, popped, body_bytes, samples;
static uint32_t *latency_us;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put32(char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

/* The body of a batch request: BATCH messages with a unique key each. */
static size_t build_batch(char *at) {
    char *start = at;
    for (int i = 0; i < BATCH; i++) {
        char properties[64];
        int size = snprintf(properties, sizeof properties, "UNIQ_KEY\001%032X\002WAIT\001true", i);
        put32(at, 22 + body_size + size);
        put32(at + 4, 0);
        put32(at + 8, 0);
        put32(at + 12, 0);
        put32(at + 16, body_size);
        memset(at + 20, 'x', body_size);
        at += 20 + body_size;
        *at++ = (char)(size >> 8);
        *at++ = (char)size;
        memcpy(at, properties, size);
        at += size;
    }
    return at - start;
}

static enum mode next_of_mix(void) {
    int turn = opaque % MIX;
    if (turn == 0) return HEARTBEAT;
    if (turn == MIX / 2) return COMMIT;
    return turn % 3 == 1 ? PULL : SEND;
}

static void load_frames(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    frames_size = ftell(file);
    frames = malloc(frames_size);
    rewind(file);
    if (fread(frames, 1, frames_size, file) != frames_size) {
        perror(path);
        exit(1);
    }
    fclose(file);
}

static size_t next_frame(char *at) {
    uint32_t length;
    memcpy(&length, frames + frames_at, 4);
    size_t size = 4 + ntohl(length);
    memcpy(at, frames + frames_at, size);
    frames_at += size;
    if (frames_at == frames_size) frames_at = 0;
    return size;
}

static size_t finish_request(char *at, size_t header_size, size_t body_length) {
    put32(at, 4 + header_size + body_length);
    put32(at + 4, header_size);
    return 8 + header_size + body_length;
}

static size_t build_request(struct connection *c, char *at) {
    char *header = at + 8;
    int size;
    size_t body_length = 0;
    if (asked == REPLAY) return next_frame(at);
    opaque++;
    enum mode mode = asked == MIXED ? next_of_mix() : asked;
    if (mode == HEARTBEAT) {
        size = sprintf(header,
            "{\"code\":34,\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
            "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}", opaque);
        body_length = sprintf(header + size,
            "{\"clientID\":\"bench\",\"consumerDataSet\":[{\"consumeFromWhere\":"
            "\"CONSUME_FROM_FIRST_OFFSET\",\"consumeType\":\"CONSUME_PASSIVELY\","
            "\"groupName\":\"bench\",\"messageModel\":\"CLUSTERING\","
            "\"subscriptionDataSet\":[{\"classFilterMode\":false,\"codeSet\":[],"
            "\"expressionType\":\"TAG\",\"subString\":\"*\",\"subVersion\":0,"
            "\"tagsSet\":[],\"topic\":\"%s\"}],\"unitMode\":false}],\"producerDataSet\":[]}",
            topic);
    } else if (mode == COMMIT) {
        size = sprintf(header,
            "{\"code\":15,\"extFields\":{\"queueId\":\"%d\",\"commitOffset\":\"%ld\","
            "\"topic\":\"%s\",\"consumerGroup\":\"bench\"},\"flag\":0,\"language\":\"JAVA\","
            "\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}",
            c->queue, c->next_offset, topic, opaque);
    } else if (mode == PULL) {
        size = sprintf(header,
            "{\"code\":11,\"extFields\":{\"queueId\":\"%d\",\"maxMsgNums\":\"%d\",%s,"
            "\"suspendTimeoutMillis\":\"15000\",\"commitOffset\":\"0\",\"topic\":\"%s\","
            "\"queueOffset\":\"%ld\",\"expressionType\":\"TAG\",\"subVersion\":\"0\","
            "\"consumerGroup\":\"bench\"},\"flag\":0,\"language\":\"JAVA\","
            "\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}",
            c->queue, BATCH, subscription, topic, c->next_offset, opaque);
        c->next_offset += BATCH;
        if (c->next_offset + BATCH > offset_limit) c->next_offset = 0;
    } else {
        char properties[80] = "WAIT\\u0001true";
        if (mode == SEND)
            sprintf(properties, "UNIQ_KEY\\u0001%032X\\u0002WAIT\\u0001true", opaque);
        char name[160];
        int queue = c->queue;
        snprintf(name, sizeof name, "%s", topic);
        if (topic_count) {
            snprintf(name, sizeof name, "%s%ld", topic, turn_of_all++ % topic_count);
            queue = 0;
        } else if (queue_count) {
            queue = turn_of_all++ % queue_count;
        }
        size = sprintf(header,
            "{\"code\":%d,\"extFields\":{\"a\":\"bench\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\","
            "\"e\":\"%d\",\"f\":\"0\",\"g\":\"1794772768714\",\"h\":\"0\",\"i\":\"%s\",\"j\":\"0\","
            "\"k\":\"false\",\"m\":\"%s\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
            "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}",
            mode == SEND ? 310 : 320, name, queue, properties,
            mode == SEND ? "false" : "true", opaque);
        if (mode == SEND) {
            body_length = body_size;
            memset(header + size, 'x', body_length);
        }
    }
    if (mode == SEND_BATCH) {
        static size_t batch_size;
        if (!batch_size) batch_size = build_batch(body);
        body_length = batch_size;
        memcpy(header + size, body, body_length);
    }
    return finish_request(at, size, body_length);
}

static void note_latency(uint64_t since, uint64_t now) {
    if (samples < SAMPLES_MAX) latency_us[samples++] = (uint32_t)((now - since) / 1000);
}

/* --- pops and their acks --- */

#define END_OF_HEADER "},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d," \
    "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":455}"

static int is_popping(void) {
    return asked == POP || asked == POP_SINGLE;
}

static void put_pop(struct connection *c, int index) {
    char *at = c->out + c->out_size;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int size = sprintf(at + 8,
        "{\"code\":200050,\"extFields\":{\"consumerGroup\":\"%s\",\"topic\":\"%s\",\"queueId\":\"%ld\","
        "\"maxMsgNums\":\"%d\",\"invisibleTime\":\"%d\",\"pollTime\":\"0\",\"bornTime\":\"%ld\","
        "\"initMode\":\"0\",\"expType\":\"TAG\",\"exp\":\"*\",\"order\":\"false\"" END_OF_HEADER,
        group, topic, queue_count ? (c->queue + index) % queue_count : -1, BATCH, INVISIBLE_MS,
        now.tv_sec * 1000 + now.tv_nsec / 1000000, 2 * index);
    c->out_size += finish_request(at, size, 0);
    c->sent_at[index] = now_ns();
}

static void put_batch_ack(struct connection *c, int index, const char *acks, int acks_size) {
    char *at = c->out + c->out_size;
    int size = sprintf(at + 8, "{\"code\":200151,\"extFields\":{" END_OF_HEADER, 2 * index + 1);
    int body_length = sprintf(at + 8 + size, "{\"acks\":[%.*s],\"brokerName\":\"%s\"}",
        acks_size, acks, broker);
    c->out_size += finish_request(at, size, body_length);
    c->poppers[index].acks_left++;
}

static void put_ack(struct connection *c, int index, int queue, long offset, const char *receipt) {
    char *at = c->out + c->out_size;
    int size = sprintf(at + 8,
        "{\"code\":200051,\"extFields\":{\"consumerGroup\":\"%s\",\"topic\":\"%s\",\"queueId\":\"%d\","
        "\"extraInfo\":\"%s %ld\",\"offset\":\"%ld\"" END_OF_HEADER,
        group, topic, queue, receipt, offset, offset, 2 * index + 1);
    c->out_size += finish_request(at, size, 0);
    c->poppers[index].acks_left++;
}

static void base64_of(uint32_t bits, char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t all = (uint64_t)__builtin_bswap32(bits) << 4; /* The first eight bits come first. */
    for (int i = 5; i >= 0; i--, all >>= 6) text[i] = digits[all & 63];
    memcpy(text + 6, "==", 3);
}

/* The text after `name`, which every reply to a pop has. */
static const char *after(const char *header, size_t size, const char *name) {
    const char *found = memmem(header, size, name, strlen(name));
    if (!found) {
        fprintf(stderr, "no %s in %.*s\n", name, (int)size, header);
        exit(1);
    }
    return found + strlen(name);
}

/* Acknowledges all that a pop has brought: "0 QUEUE OFFSET,OFFSET;0 QUEUE ..." and "0 QUEUE START;..." */
static void put_acks(struct connection *c, int index, const char *header, size_t size) {
    char *starts = (char *)after(header, size, "\"startOffsetInfo\":\"");
    char *offsets = (char *)after(header, size, "\"msgOffsetInfo\":\"");
    long pop_ms = atol(after(header, size, "\"popTime\":\""));
    int revive_queue = atoi(after(header, size, "\"reviveQid\":\""));
    char *acks = body;
    for (;; starts++, offsets++) {
        char kind = *offsets, receipt[256], base64[9];
        int queue = strtol(offsets + 2, &offsets, 10);
        strtol(starts + 2, &starts, 10);
        long start = strtol(starts, &starts, 10);
        uint32_t bits = 0;
        snprintf(receipt, sizeof receipt, "%ld %ld %d %d %c %s %d", start, pop_ms, INVISIBLE_MS,
            revive_queue, kind, broker, queue);
        do {
            long offset = strtol(offsets + 1, &offsets, 10);
            bits |= 1u << (offset - start);
            popped++;
            if (asked == POP_SINGLE) put_ack(c, index, queue, offset, receipt);
        } while (*offsets == ',');
        base64_of(bits, base64);
        acks += sprintf(acks,
            "%s{\"b\":\"%s\",\"c\":\"%s\",\"it\":%d,\"pt\":%ld,\"q\":%d,\"r\":\"%c\",\"rq\":%d,"
            "\"so\":%ld,\"t\":\"%s\"}", acks == body ? "" : ",", base64, group, INVISIBLE_MS, pop_ms,
            queue, kind, revive_queue, start, topic);
        if (*offsets != ';') break;
    }
    if (asked == POP) put_batch_ack(c, index, body, acks - body);
}

static void take_popped(struct connection *c, const char *header, size_t size, int is_success, uint64_t now) {
    int opaque_of_reply = atoi(after(header, size, "\"opaque\":")), index = opaque_of_reply / 2;
    struct popper *popper = &c->poppers[index];
    if (opaque_of_reply % 2) {
        if (--popper->acks_left || !popper->is_waiting) return;
        popper->is_waiting = 0;
    } else {
        requests++;
        note_latency(c->sent_at[index], now);
        popper->is_waiting = popper->acks_left > 0;
        if (is_success) put_acks(c, index, header, size);
        if (popper->is_waiting) return;
    }
    put_pop(c, index);
}

static void fill(struct connection *c) {
    if (is_paced) return;
    for (; is_popping() && c->tail < (unsigned)in_flight; c->tail++) put_pop(c, c->tail);
    while (c->tail - c->head < (unsigned)in_flight && c->out_size < WRITE_SIZE) {
        if (asked == REPLAY && sent == (uint64_t)offset_limit) return;
        sent++;
        c->out_size += build_request(c, c->out + c->out_size);
        c->sent_at[c->tail++ % in_flight] = now_ns();
    }
}

static void flush_out(struct connection *c) {
    while (c->out_done < c->out_size) {
        ssize_t n = write(c->fd, c->out + c->out_done, c->out_size - c->out_done);
        if (n < 0) {
            if (errno == EAGAIN) return;
            perror("write");
            exit(1);
        }
        c->out_done += n;
    }
    c->out_done = c->out_size = 0;
}

static void take_replies(struct connection *c) {
    ssize_t n = read(c->fd, c->in + c->in_size, READ_SIZE * 2 - c->in_size);
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN) return;
        fprintf(stderr, "the broker closed the connection\n");
        exit(1);
    }
    c->in_size += n;
    size_t at = 0;
    uint64_t now = now_ns();
    while (c->in_size - at >= 8) {
        uint32_t length, header;
        memcpy(&length, c->in + at, 4);
        memcpy(&header, c->in + at + 4, 4);
        length = ntohl(length);
        header = ntohl(header) & 0xffffff;
        if (c->in_size - at < 4 + length) break;
        if (memcmp(c->in + at + 8, "{\"code\":40,", 11) == 0) {
            /* No reply: members of the group are notified of each other. */
            at += 4 + length;
            continue;
        }
        body_bytes += length - 4 - header;
        int is_success = memcmp(c->in + at + 8, "{\"code\":0,", 10) == 0;
        if (!is_success && !errors++)
            fprintf(stderr, "first error: %.*s\n", (int)header, c->in + at + 8);
        if (is_popping()) {
            take_popped(c, c->in + at + 8, header, is_success, now);
        } else {
            requests++;
            note_latency(c->sent_at[c->head++ % in_flight], now);
        }
        at += 4 + length;
    }
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
}

static int has_room(const struct connection *c) {
    return c->tail - c->head < (unsigned)in_flight;
}

/* All that are due, to the connections in turn. Those that find no room stay due. */
static void send_due(struct connection *all, int count) {
    static unsigned turn;
    for (uint64_t now = now_ns(); due <= now; due += interval) {
        for (int tries = 0; tries < count && !has_room(&all[turn % count]); tries++) turn++;
        struct connection *c = &all[turn++ % count];
        if (!has_room(c)) return;
        sent++;
        c->out_size += build_request(c, c->out + c->out_size);
        c->sent_at[c->tail++ % in_flight] = due;
        flush_out(c);
    }
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 9 || argc > 13) {
        fprintf(stderr, "usage: load PORT send|batch|pull|member|mixed|paced|replay|pop|pop1 CONNECTIONS IN_FLIGHT"
                        " SECONDS BODY_SIZE TOPIC LIMIT [TOPIC_COUNT [QUEUE_COUNT [GROUP [BROKER]]]]\n");
        return 2;
    }
    int port = atoi(argv[1]), count = atoi(argv[3]);
    is_paced = !strcmp(argv[2], "paced");
    asked = is_paced || !strcmp(argv[2], "send") ? SEND : !strcmp(argv[2], "batch") ? SEND_BATCH
        : !strcmp(argv[2], "mixed") ? MIXED : !strcmp(argv[2], "replay") ? REPLAY
        : !strcmp(argv[2], "pop") ? POP : !strcmp(argv[2], "pop1") ? POP_SINGLE : PULL;
    if (!strcmp(argv[2], "member") || asked == MIXED) subscription = "\"sysFlag\":\"2\"";
    in_flight = atoi(argv[4]);
    double seconds = atof(argv[5]);
    body_size = atoi(argv[6]);
    topic = argv[7];
    if (asked == REPLAY) load_frames(topic);
    offset_limit = atol(argv[8]);
    topic_count = argc > 9 ? atol(argv[9]) : 0;
    queue_count = argc > 10 ? atol(argv[10]) : 0;
    if (argc > 11) group = argv[11];
    if (argc > 12) broker = argv[12];
    latency_us = malloc(sizeof *latency_us * SAMPLES_MAX);
    struct connection *all = calloc(count, sizeof *all);
    int poll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        struct connection *c = &all[i];
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) {
            perror("connect");
            return 1;
        }
        int one = 1;
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        c->queue = is_popping() ? i * in_flight : i % QUEUES;
        c->in = malloc(READ_SIZE * 2);
        c->out = malloc(WRITE_SIZE + sizeof body); /* Of which the kernel gives what is used. */
        c->sent_at = malloc(sizeof *c->sent_at * in_flight);
        c->poppers = calloc(in_flight, sizeof *c->poppers);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
        fill(c);
        flush_out(c);
    }
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (is_paced) {
        interval = 1000000000u / offset_limit;
        struct itimerspec every = {.it_value.tv_nsec = interval, .it_interval.tv_nsec = interval};
        timerfd_settime(timer, 0, &every, NULL);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
        epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event);
    }
    uint64_t start = due = now_ns(), end = start + (uint64_t)(seconds * 1e9);
    struct epoll_event ready[64];
    while (now_ns() < end && !(asked == REPLAY && requests >= (uint64_t)offset_limit)
           && !(is_popping() && popped >= (uint64_t)offset_limit)) {
        int n = epoll_wait(poll, ready, 64, 100);
        for (int i = 0; i < n; i++) {
            struct connection *c = ready[i].data.ptr;
            uint64_t passed;
            if (!c) {
                if (read(timer, &passed, sizeof passed) > 0) send_due(all, count);
                continue;
            }
            if (ready[i].events & EPOLLIN) take_replies(c);
            if (c->out_done == c->out_size) fill(c);
            flush_out(c);
            int waiting = c->out_done < c->out_size;
            struct epoll_event event = {.events = EPOLLIN | (waiting ? EPOLLOUT : 0), .data.ptr = c};
            if (waiting || (ready[i].events & EPOLLOUT)) epoll_ctl(poll, EPOLL_CTL_MOD, c->fd, &event);
        }
    }
    double took = (now_ns() - start) / 1e9;
    qsort(latency_us, samples, sizeof *latency_us, by_value);
    printf("{\"requests\":%lu,\"messages\":%lu,\"errors\":%lu,\"seconds\":%.3f,\"body_bytes\":%lu,"
           "\"p50_us\":%u,\"p99_us\":%u,\"p999_us\":%u,\"max_us\":%u}\n",
           requests,
           is_popping() ? popped : (requests - errors) * (asked == SEND || asked == MIXED ? 1 : BATCH),
           errors, took, body_bytes,
           samples ? latency_us[samples / 2] : 0, samples ? latency_us[samples * 99 / 100] : 0,
           samples ? latency_us[samples * 999 / 1000] : 0, samples ? latency_us[samples - 1] : 0);
    return 0;
}
