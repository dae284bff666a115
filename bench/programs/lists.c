// What small embedded programs do, by turns: a linked list that is searched, turned round and sorted, matrices of
// 16-bit numbers, a state machine that reads numbers, and a CRC-16 over what came out. n rounds.
#include "freestanding.h"

// -- a linked list

enum { kNodes = 200 };
typedef struct Node {
  struct Node* next;
  int16_t key, value;
} Node;
static Node nodes[kNodes];

static Node* reversed(Node* list) {
  Node* done = 0;
  while (list) {
    Node* const next = list->next;
    list->next = done;
    done = list;
    list = next;
  }
  return done;
}

static const Node* find(const Node* list, int16_t key) {
  while (list && list->key != key) list = list->next;
  return list;
}

typedef int (*Before)(const Node*, const Node*);
static int before_by_key(const Node* a, const Node* b) { return a->key <= b->key; }
static int before_by_value(const Node* a, const Node* b) { return a->value <= b->value; }

// Merges runs of 1, 2, 4, … nodes until one is left.
static Node* sorted(Node* list, Before before) {
  for (int run = 1;; run *= 2) {
    Node* rest = list;
    Node** end = &list;
    int merges = 0;
    while (rest) {
      Node* a = rest;
      int left = 0, right = run;
      for (Node* at = a; left < run && at; at = at->next) ++left;
      for (int i = 0; i < left; ++i) rest = rest->next;
      Node* b = rest;
      ++merges;
      while (left > 0 || (right > 0 && b)) {
        const int takes_a = left > 0 && (right == 0 || !b || before(a, b));
        Node* const taken = takes_a ? a : b;
        if (takes_a) {
          a = a->next;
          --left;
        } else {
          b = b->next;
          --right;
        }
        *end = taken;
        end = &taken->next;
      }
      rest = b;
    }
    *end = 0;
    if (merges <= 1) return list;
  }
}

// -- matrices

enum { kSide = 12 };
static int16_t left[kSide][kSide], right[kSide][kSide];
static int32_t product[kSide][kSide];

static int32_t multiply(int16_t seed) {
  for (int i = 0; i < kSide; ++i)
    for (int k = 0; k < kSide; ++k) {
      left[i][k] = (int16_t)(seed + i * k);
      right[i][k] = (int16_t)(seed ^ (i - k));
    }
  int32_t sum = 0;
  for (int i = 0; i < kSide; ++i)
    for (int k = 0; k < kSide; ++k) {
      int32_t cell = 0;
      for (int j = 0; j < kSide; ++j) cell += left[i][j] * right[j][k];
      product[i][k] = cell;
      sum += cell >> 2 & 0x7F;
    }
  return sum;
}

// -- a state machine

typedef enum { kStart, kSign, kInteger, kPoint, kFraction, kExponent, kPower, kInvalid, kStates } State;
static const char text[] =
    "7,42,-19,+6,3.25,.5,-.75,100.,1e9,2.5e-3,+8.125e+12,-4e-7,12a,1.2.3,--5,e6,99999999,0.000001,6e,31.e2";

static State after(State state, char c) {
  const int is_digit = c >= '0' && c <= '9';
  switch (state) {
    case kStart: return is_digit ? kInteger : c == '+' || c == '-' ? kSign : c == '.' ? kPoint : kInvalid;
    case kSign: return is_digit ? kInteger : c == '.' ? kPoint : kInvalid;
    case kInteger: return is_digit ? kInteger : c == '.' ? kPoint : c == 'e' ? kExponent : kInvalid;
    case kPoint:
    case kFraction: return is_digit ? kFraction : c == 'e' ? kExponent : kInvalid;
    case kExponent: return is_digit || c == '+' || c == '-' ? kPower : kInvalid;
    case kPower: return is_digit ? kPower : kInvalid;
    default: return kInvalid;
  }
}

static void read_numbers(uint32_t* ends) {
  State state = kStart;
  for (const char* at = text; *at; ++at) {
    if (*at != ',') {
      if (state != kInvalid) state = after(state, *at);
      continue;
    }
    ++ends[state];
    state = kStart;
  }
  ++ends[state];
}

// -- a checksum

static uint16_t crc16(uint16_t crc, uint32_t word) {
  for (int i = 0; i < 32; ++i, word >>= 1) {
    const int bit = (crc ^ word) & 1;
    crc >>= 1;
    if (bit) crc ^= 0xA001;
  }
  return crc;
}

int64_t EXPORT(run)(int32_t n) {
  uint16_t crc = 0;
  for (int32_t round = 0; round < n; ++round) {
    for (int i = 0; i < kNodes; ++i)
      nodes[i] = (Node){i + 1 < kNodes ? &nodes[i + 1] : 0, (int16_t)((i * 73 + round) % 251), (int16_t)i};
    Node* list = sorted(reversed(nodes), before_by_key);
    for (int16_t key = 0; key < 40; ++key) {
      const Node* const found = find(list, (int16_t)(key * 6));
      crc = crc16(crc, found ? (uint32_t)found->value : 0xFFFF);
    }
    list = sorted(list, before_by_value);
    crc = crc16(crc, (uint32_t)list->key);
    crc = crc16(crc, (uint32_t)multiply((int16_t)round));
    uint32_t ends[kStates] = {0};
    for (int i = 0; i < 4; ++i) read_numbers(ends);
    for (int i = 0; i < kStates; ++i) crc = crc16(crc, ends[i]);
  }
  return crc;
}
