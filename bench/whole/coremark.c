// The work that CoreMark is made of, in code of this project's own (no registry of packages has CoreMark): a linked
// list that is searched, reversed and sorted through function pointers, products of small matrices, a state machine
// over text, and a CRC of everything.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

static NOINLINE uint16_t crc_byte(uint8_t byte, uint16_t crc) {
  for (int i = 0; i < 8; ++i, byte >>= 1) {
    const int carry = (crc ^ byte) & 1;
    crc >>= 1;
    if (carry) crc ^= 0xA001;
  }
  return crc;
}
static NOINLINE uint16_t crc_word(uint32_t value, uint16_t crc) {
  for (int i = 0; i < 4; ++i, value >>= 8) crc = crc_byte((uint8_t)value, crc);
  return crc;
}

// -- lists --

typedef struct Node {
  struct Node* next;
  int16_t value, index;
} Node;

enum { kNodes = 200 };
static Node nodes[kNodes];

static NOINLINE Node* make_list(int seed) {
  for (int i = 0; i < kNodes; ++i) {
    nodes[i].next = i + 1 < kNodes ? &nodes[i + 1] : NULL;
    nodes[i].value = (int16_t)((i * 7919 + seed) % 251);
    nodes[i].index = (int16_t)i;
  }
  return nodes;
}
static NOINLINE Node* find(Node* list, int16_t value) {
  while (list != NULL && list->value != value) list = list->next;
  return list;
}
static NOINLINE Node* reversed(Node* list) {
  Node* out = NULL;
  while (list != NULL) {
    Node* const next = list->next;
    list->next = out;
    out = list;
    list = next;
  }
  return out;
}
typedef int (*Compare)(const Node*, const Node*);
static int by_value(const Node* a, const Node* b) { return a->value - b->value; }
static int by_index(const Node* a, const Node* b) { return a->index - b->index; }
static NOINLINE Node* merged(Node* a, Node* b, Compare compare) {
  Node head = {0};
  Node* tail = &head;
  while (a != NULL && b != NULL) {
    Node** const least = compare(a, b) <= 0 ? &a : &b;
    tail->next = *least;
    tail = *least;
    *least = (*least)->next;
  }
  tail->next = a != NULL ? a : b;
  return head.next;
}
static NOINLINE Node* sorted(Node* list, int count, Compare compare) {
  if (count < 2) {
    if (list != NULL) list->next = NULL;
    return list;
  }
  Node* half = list;
  for (int i = 0; i < count / 2; ++i) half = half->next;
  Node* const second = sorted(half, count - count / 2, compare);
  return merged(sorted(list, count / 2, compare), second, compare);
}
static NOINLINE uint16_t work_on_lists(int seed, uint16_t crc) {
  Node* list = make_list(seed);
  for (int16_t v = 0; v < 20; ++v) {
    const Node* const found = find(list, (int16_t)(v * 11));
    crc = crc_word(found == NULL ? 0 : (uint32_t)found->index, crc);
    list = reversed(list);
  }
  list = sorted(list, kNodes, by_value);
  for (const Node* n = list; n != NULL; n = n->next) crc = crc_byte((uint8_t)n->index, crc);
  list = sorted(list, kNodes, by_index);
  return crc_word((uint32_t)list->value, crc);
}

// -- matrices --

enum { kSize = 12 };
static int16_t left[kSize][kSize], right[kSize][kSize];
static int32_t product[kSize][kSize];

static NOINLINE void fill_matrices(int seed) {
  for (int i = 0; i < kSize; ++i)
    for (int k = 0; k < kSize; ++k) {
      left[i][k] = (int16_t)(i * k + seed);
      right[i][k] = (int16_t)(i - k * seed);
    }
}
static NOINLINE void multiply(void) {
  for (int i = 0; i < kSize; ++i)
    for (int k = 0; k < kSize; ++k) {
      int32_t sum = 0;
      for (int j = 0; j < kSize; ++j) sum += left[i][j] * right[j][k];
      product[i][k] = sum;
    }
}
static NOINLINE int32_t sum_of_product(int32_t clip) {
  int32_t sum = 0, before = 0;
  for (int i = 0; i < kSize; ++i)
    for (int k = 0; k < kSize; ++k) {
      const int32_t now = product[i][k];
      sum += now;
      if (sum > clip) sum = 0;
      else sum += now > before ? 10 : 0;
      before = now;
    }
  return sum;
}
static NOINLINE uint16_t work_on_matrices(int seed, uint16_t crc) {
  fill_matrices(seed % 17);
  for (int i = 0; i < 3; ++i) {
    multiply();
    crc = crc_word((uint32_t)sum_of_product(1000 * i), crc);
    left[i][i] = (int16_t)crc;
  }
  return crc;
}

// -- states --

typedef enum { kStart, kInteger, kFraction, kExponent, kInvalid, kStates } State;

static NOINLINE State next_state(State state, char c) {
  const int digit = c >= '0' && c <= '9';
  switch (state) {
    case kStart: return digit || c == '-' ? kInteger : c == '.' ? kFraction : kInvalid;
    case kInteger: return digit ? kInteger : c == '.' ? kFraction : c == 'e' ? kExponent : kInvalid;
    case kFraction: return digit ? kFraction : c == 'e' ? kExponent : kInvalid;
    case kExponent: return digit || c == '-' ? kExponent : kInvalid;
    default: return kInvalid;
  }
}
static NOINLINE uint16_t work_on_states(int seed, uint16_t crc) {
  static const char kText[] =
      "5012,1.5,-874,+122,35.54400,.1234500,-110.700,5.500e3,-.123e-2,T0.3e-1F,-T.T++Tq,1T3.4e4z,";
  uint32_t counts[kStates] = {0};
  for (int round = 0; round < 8; ++round) {
    State state = kStart;
    for (const char* c = kText; *c != '\0'; ++c) {
      if (*c == ',') {
        ++counts[state];
        state = kStart;
        continue;
      }
      state = next_state(state, (char)(*c ^ (round == seed % 8 && *c == 'T' ? 1 : 0)));
    }
  }
  for (int i = 0; i < kStates; ++i) crc = crc_word(counts[i], crc);
  return crc;
}

int main(void) {
  uint16_t crc = 0;
  for (int i = 0; i < 6000; ++i) {
    crc = work_on_lists(i, crc);
    crc = work_on_matrices(i, crc);
    crc = work_on_states(i, crc);
  }
  printf("%04x\n", crc);
  return 0;
}
