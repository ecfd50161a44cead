/* Copyright: (c) 2026, gpuops.sglang contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A stand-in for a streaming completion server that knows what it sent and when: token k of a request is due
 * ttft + k * itl after the request came, and every write is timed. One thread, one epoll, a heap of deadlines.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_FD 16384
#define IN_SIZE (1 << 18)
#define OUT_SIZE (1 << 16)
#define GAPS (1 << 22)

enum fault { NONE, HTTP_500, HTTP_429, SSE_ERROR, EMPTY, CUT, HANG };
static const char *fault_names[] = {"none", "http_500", "http_429", "sse_error", "empty", "cut", "hang"};

static struct { double ttft, itl; long chunk, cap, every, usage, fault, armed; } set = {0.05, 0.02, 1, 0, 0, 1, NONE, 1};
static struct {
  long requests, completed, tokens, good_tokens, gaps, firsts;
  int64_t begin, end;
  float *gap, *first;
  double cpu;
} seen;

typedef struct {
  int fd, in_len, out_len, out_off, busy, chat, wants_usage, every_usage, prompt, asked, sent, heap_at;
  enum fault fault;
  long serial;
  int64_t came, wrote, due;
  char *in, *out;
} conn;

static conn *conns[MAX_FD];
static conn *heap[MAX_FD];
static int heap_size, poller;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---------------------------------------------------------------- heap of deadlines */
static void place(conn *c, int at) { heap[at] = c; c->heap_at = at; }

static void sift(int at) {
  conn *c = heap[at];
  while (at > 0 && heap[(at - 1) / 2]->due > c->due) { place(heap[(at - 1) / 2], at); at = (at - 1) / 2; }
  for (;;) {
    int child = 2 * at + 1;
    if (child >= heap_size) break;
    if (child + 1 < heap_size && heap[child + 1]->due < heap[child]->due) child++;
    if (heap[child]->due >= c->due) break;
    place(heap[child], at);
    at = child;
  }
  place(c, at);
}

static void schedule(conn *c, int64_t due) {
  c->due = due;
  if (c->heap_at < 0) place(c, heap_size++);
  sift(c->heap_at);
}

static void unschedule(conn *c) {
  int at = c->heap_at;
  if (at < 0) return;
  c->heap_at = -1;
  if (at != --heap_size) { place(heap[heap_size], at); sift(at); }
}

/* ------------------------------------------------------------------------- output */
static void drop(conn *c) {
  unschedule(c);
  conns[c->fd] = NULL;
  close(c->fd);
  free(c->in);
  free(c->out);
  free(c);
}

static int flush(conn *c) {
  while (c->out_off < c->out_len) {
    ssize_t n = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN ? 0 : -1;
    c->out_off += n;
  }
  c->out_len = c->out_off = 0;
  return 1;
}

static void put(conn *c, const char *text, int size) {
  if (c->out_off) { memmove(c->out, c->out + c->out_off, c->out_len - c->out_off); c->out_len -= c->out_off; c->out_off = 0; }
  if (c->out_len + size > OUT_SIZE) return; /* a reader that far behind is dropped by the next write */
  memcpy(c->out + c->out_len, text, size);
  c->out_len += size;
}

static void answer(conn *c, const char *status, const char *body) {
  char text[4096];
  put(c, text, snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body));
}

static void put_event(conn *c, const char *body, int size) {
  char head[32];
  put(c, head, snprintf(head, sizeof head, "%x\r\n", size + 8));
  put(c, "data: ", 6);
  put(c, body, size);
  put(c, "\n\n\r\n", 4);
}

static void put_choice(conn *c, int words, int role, const char *finish) {
  char text[2048], content[1024] = "";
  int size, at = 0;
  for (int i = 0; i < words && at < 1000; i++) at += snprintf(content + at, sizeof content - at, " w%03d", (c->sent + i) % 1000);
  char usage[128] = "null";
  if (c->every_usage && words) snprintf(usage, sizeof usage, "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}", c->prompt, c->sent + words, c->prompt + c->sent + words);
  size = snprintf(text, sizeof text,
    c->chat ? "{\"id\":\"chat-%ld\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"truth\",\"choices\":[{\"index\":0,\"delta\":{\"role\":%s,\"content\":\"%s\",\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":%s,\"matched_stop\":null}],\"usage\":%s}"
            : "{\"id\":\"text-%ld\",\"object\":\"text_completion\",\"created\":1790000000,\"model\":\"truth\",\"choices\":[{\"index\":0,%.0s\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":%s,\"matched_stop\":null}],\"usage\":%s}",
    c->serial, role ? "\"assistant\"" : "null", content, finish, usage);
  put_event(c, text, size);
}

static void put_end(conn *c) {
  char text[256];
  put_choice(c, 0, 0, "\"length\"");
  if (c->wants_usage && set.usage)
    put_event(c, text, snprintf(text, sizeof text, "{\"id\":\"%ld\",\"object\":\"chat.completion.chunk\",\"model\":\"truth\",\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,\"prompt_tokens_details\":null}}",
                              c->serial, c->prompt, c->sent, c->prompt + c->sent));
}

/* ------------------------------------------------------------------------ requests */
static void parse_more(conn *c);

static int64_t due_of(const conn *c) { return c->came + (int64_t)((set.ttft + set.itl * c->sent) * 1e9); }

static void finish(conn *c) {
  put(c, "0\r\n\r\n", 5);
  unschedule(c);
  c->busy = 0;
  if (flush(c) < 0) { drop(c); return; }
  if (c->in_len) parse_more(c);
}

static void emit(conn *c) {
  static const char stream_head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  static const char error[] = "{\"error\":{\"object\":\"error\",\"message\":\"told to fail\",\"code\":500}}";
  int words = c->asked - c->sent < set.chunk ? c->asked - c->sent : (int)set.chunk;
  if (c->fault == HANG) { unschedule(c); return; }
  if (!c->sent) { put(c, stream_head, sizeof stream_head - 1); if (c->chat) put_choice(c, 0, 1, "null"); }
  if (c->fault == EMPTY) { put_end(c); put_event(c, "[DONE]", 6); finish(c); return; }
  put_choice(c, words, 0, "null");
  c->sent += words;
  seen.tokens += words;
  int half = c->sent * 2 >= c->asked, last = c->sent >= c->asked;
  if (c->fault == SSE_ERROR && half) { put_event(c, error, sizeof error - 1); put_event(c, "[DONE]", 6); last = 1; }
  else if (last) { put_end(c); put_event(c, "[DONE]", 6); seen.completed++; seen.good_tokens += c->sent; }
  int64_t t = now();
  if (flush(c) < 0) { drop(c); return; }
  if (c->wrote) { if (seen.gaps < GAPS) seen.gap[seen.gaps++] = (t - c->wrote) / 1e6; }
  else if (seen.firsts < GAPS) seen.first[seen.firsts++] = (t - c->came) / 1e6;
  c->wrote = seen.end = t;
  if (c->fault == CUT && half) { drop(c); return; }
  if (last) finish(c);
  else schedule(c, due_of(c));
}

static long field(const char *text, const char *name, long otherwise) {
  const char *at = strstr(text, name);
  if (!at) return otherwise;
  at += strlen(name);
  while (*at == ' ' || *at == ':') at++;
  return !strncmp(at, "true", 4) ? 1 : !strncmp(at, "false", 5) ? 0 : atol(at);
}

static int words_of(const char *body) {
  const char *at = strstr(body, "\"content\"");
  if (!at) at = strstr(body, "\"prompt\"");
  if (!at || !(at = strchr(at, ':')) || !(at = strchr(at, '"'))) return 1;
  int count = 0, inside = 0;
  for (at++; *at && *at != '"'; at++) { if (*at == ' ') inside = 0; else { count += !inside; inside = 1; } }
  return count;
}

static int by_size(const void *a, const void *b) { float x = *(const float *)a, y = *(const float *)b; return (x > y) - (x < y); }
static double part(float *v, long n, double share) { if (!n) return 0; long at = (long)(share * n); return v[at < n ? at : n - 1]; }

static void report(conn *c) {
  char text[1024];
  qsort(seen.gap, seen.gaps, sizeof *seen.gap, by_size);
  qsort(seen.first, seen.firsts, sizeof *seen.first, by_size);
  double wall = seen.end > seen.begin ? (seen.end - seen.begin) / 1e9 : 0;
  snprintf(text, sizeof text, "{\"requests\":%ld,\"completed\":%ld,\"tokens\":%ld,\"good_tokens\":%ld,\"wall_s\":%.4f,\"tok_s\":%.2f,\"ttft_p50_ms\":%.3f,\"ttft_p99_ms\":%.3f,\"gap_p50_ms\":%.3f,\"gap_p99_ms\":%.3f,\"cpu_s\":%.3f}",
           seen.requests, seen.completed, seen.tokens, seen.good_tokens, wall, wall > 0 ? seen.good_tokens / wall : 0, part(seen.first, seen.firsts, .5), part(seen.first, seen.firsts, .99),
           part(seen.gap, seen.gaps, .5), part(seen.gap, seen.gaps, .99), cpu() - seen.cpu);
  answer(c, "200 OK", text);
}

static void forget(void) {
  seen.requests = seen.completed = seen.tokens = seen.good_tokens = seen.gaps = seen.firsts = 0;
  seen.begin = seen.end = 0;
  seen.cpu = cpu();
}

static void configure(conn *c, char *query) {
  for (char *save, *pair = strtok_r(query, "&", &save); pair; pair = strtok_r(NULL, "&", &save)) {
    char *value = strchr(pair, '=');
    if (!value) continue;
    *value++ = 0;
    if (!strcmp(pair, "ttft_ms")) set.ttft = atof(value) / 1e3;
    if (!strcmp(pair, "itl_ms")) set.itl = atof(value) / 1e3;
    if (!strcmp(pair, "chunk")) set.chunk = atol(value);
    if (!strcmp(pair, "cap")) set.cap = atol(value);
    if (!strcmp(pair, "every")) set.every = atol(value);
    if (!strcmp(pair, "armed")) set.armed = atol(value);
    if (!strcmp(pair, "usage")) set.usage = atol(value);
    if (!strcmp(pair, "fault")) for (int i = 0; i < 7; i++) if (!strcmp(value, fault_names[i])) set.fault = i;
  }
  forget();
  answer(c, "200 OK", "{}");
}

static void begin(conn *c, const char *body, int chat) {
  int stream = field(body, "\"stream\"", 0);
  c->came = now();
  c->chat = chat;
  c->wrote = c->sent = 0;
  c->prompt = words_of(body);
  c->asked = field(body, "\"max_completion_tokens\"", field(body, "\"max_tokens\"", 16));
  if (set.cap && c->asked > set.cap) c->asked = set.cap;
  c->wants_usage = field(body, "\"include_usage\"", 0);
  c->every_usage = set.usage && field(body, "\"continuous_usage_stats\"", 0);
  c->serial = ++seen.requests;
  c->fault = set.armed && set.every && seen.requests % set.every == 0 ? set.fault : NONE;
  if (!seen.begin) seen.begin = c->came;
  if (c->fault == HTTP_500) { answer(c, "500 Internal Server Error", "{\"object\":\"error\",\"message\":\"told to fail\",\"code\":500}"); return; }
  if (c->fault == HTTP_429) { answer(c, "429 Too Many Requests", "{\"object\":\"error\",\"message\":\"told to fail\",\"code\":429}"); return; }
  if (!stream) {
    char text[512];
    snprintf(text, sizeof text, "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"w\"},\"text\":\"w\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}", c->prompt, c->asked, c->prompt + c->asked);
    answer(c, "200 OK", text);
    return;
  }
  c->busy = 1;
  schedule(c, due_of(c));
}

static void handle(conn *c, char *path, const char *body) {
  char *query = strchr(path, '?');
  if (query) *query++ = 0;
  if (!strcmp(path, "/v1/chat/completions")) begin(c, body, 1);
  else if (!strcmp(path, "/v1/completions")) begin(c, body, 0);
  else if (!strcmp(path, "/v1/models")) answer(c, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"truth\",\"object\":\"model\",\"owned_by\":\"truth\",\"root\":\"truth\",\"max_model_len\":131072}]}");
  else if (!strcmp(path, "/truth")) report(c);
  else if (!strcmp(path, "/set")) configure(c, query ? query : (char[]){""});
  else if (!strcmp(path, "/health")) answer(c, "200 OK", "");
  else if (!strcmp(path, "/flush_cache")) { forget(); set.armed = 1; answer(c, "200 OK", ""); } /* what came before was a warm-up */
  else if (!strcmp(path, "/server_info") || !strcmp(path, "/get_server_info")) answer(c, "200 OK", "{\"version\":\"truth\"}");
  else answer(c, "404 Not Found", "{\"detail\":\"Not Found\"}");
}

static void parse_more(conn *c) {
  while (!c->busy) {
    c->in[c->in_len] = 0;
    char *end = strstr(c->in, "\r\n\r\n");
    if (!end) return;
    const char *length = strcasestr(c->in, "\r\ncontent-length:");
    int body = length && length < end ? atoi(length + 17) : 0, total = (int)(end - c->in) + 4 + body;
    if (c->in_len < total) return;
    char path[256] = "", keep = c->in[total];
    sscanf(c->in, "%*s %255s", path);
    c->in[total] = 0;
    handle(c, path, end + 4);
    c->in[total] = keep;
    c->in_len -= total;
    memmove(c->in, c->in + total, c->in_len);
    if (!c->busy && flush(c) < 0) { drop(c); return; }
  }
}

static void readable(conn *c) {
  ssize_t n = recv(c->fd, c->in + c->in_len, IN_SIZE - c->in_len - 1, 0);
  if (n <= 0) { if (n == 0 || errno != EAGAIN) drop(c); return; }
  c->in_len += n;
  parse_more(c);
}

static void welcome(int listener) {
  int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  if (fd < 0) return;
  if (fd >= MAX_FD) { close(fd); return; }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  conn *c = calloc(1, sizeof *c);
  c->fd = fd;
  c->heap_at = -1;
  c->in = malloc(IN_SIZE);
  c->out = malloc(OUT_SIZE);
  conns[fd] = c;
  struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

int main(int argc, char **argv) {
  int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  struct rlimit files = {MAX_FD, MAX_FD};
  setrlimit(RLIMIT_NOFILE, &files);
  prctl(PR_SET_TIMERSLACK, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) { perror("listen"); return 1; }
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  seen.gap = malloc(GAPS * sizeof *seen.gap);
  seen.first = malloc(GAPS * sizeof *seen.first);
  poller = epoll_create1(0);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, ready[512];
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
  for (;;) {
    int64_t wait = heap_size ? heap[0]->due - now() : 1000000000LL;
    struct timespec limit = {wait > 0 ? wait / 1000000000LL : 0, wait > 0 ? wait % 1000000000LL : 0};
    int count = epoll_pwait2(poller, ready, 512, &limit, NULL);
    for (int i = 0; i < count; i++) {
      int fd = ready[i].data.fd;
      if (fd == listener) welcome(listener);
      else if (conns[fd]) readable(conns[fd]);
    }
    int64_t t = now();
    while (heap_size && heap[0]->due <= t) emit(heap[0]);
  }
}
