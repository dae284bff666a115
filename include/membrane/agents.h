/* What an embedder who builds an agent can give to its programs in addition to the policy: approval of what leaves, a
 * model, a person, and receipts of what ran. See agents.hpp for what they are; ownership and errors are as in
 * membrane.h. */
#ifndef MEMBRANE_AGENTS_H
#define MEMBRANE_AGENTS_H

#include <membrane/membrane.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was read, shared by all sessions that are given it. Threads: any. */
typedef struct membrane_flows membrane_flows;
membrane_flows* membrane_flows_new(void); /* NULL without memory */
bool membrane_flows_is_closed(
    const membrane_flows* flows);                /* both kinds were read: nothing leaves without a yes */
void membrane_flows_free(membrane_flows* flows); /* sessions keep it */

/* A directory of receipts, one per turn. Threads: any. */
typedef struct membrane_receipts membrane_receipts;
/* `key_file` NULL: the user's own. With `makes_key`, a key is created if the file does not exist. */
membrane_receipts* membrane_receipts_open(const char* directory, const char* key_file, bool makes_key,
                                          membrane_error** error);
void membrane_receipts_free(membrane_receipts* receipts); /* sessions keep it */

typedef struct membrane_flow_read {
  uint64_t call;        /* the number of the host call, from 1; 0: input, or what another session has read */
  const char* function; /* "fs.read" */
  const char* target;
} membrane_flow_read;

/* A request that would leave after both kinds were read. Borrowed until the callback returns. */
typedef struct membrane_egress_question {
  const char* function;                    /* "http.request", "ai.complete" */
  const char* target;                      /* "POST https://example.org/upload" */
  uint64_t bytes;                          /* that the request would send */
  const membrane_flow_read* private_reads; /* the first ones */
  size_t private_count;
  const membrane_flow_read* untrusted_reads;
  size_t untrusted_count;
  uint64_t wait_ms; /* until the turn's time is over: a later answer is a no */
} membrane_egress_question;

typedef enum membrane_approval {
  MEMBRANE_APPROVED,
  MEMBRANE_REFUSED,
  MEMBRANE_NOBODY_THERE /* no one to ask: refuses, and is reported as unanswered */
} membrane_approval;

typedef struct membrane_reply membrane_reply;

/* A callback's answer; each call replaces the previous one, and without any the program gets an error. Everything is
 * copied. */
void membrane_reply_text(membrane_reply* reply, const char* text,
                         size_t size); /* size 0: to the 0 at its end */
void membrane_reply_vector(membrane_reply* reply, const float* numbers, size_t count);
/* `code` is the name of the error number that the program gets ("ETIMEDOUT"); an unknown name becomes EHOST. */
void membrane_reply_error(membrane_reply* reply, const char* code, const char* message);
/* The tokens used, which are charged to the budget; call in addition to membrane_reply_text. */
void membrane_reply_tokens(membrane_reply* reply, uint64_t tokens_in, uint64_t tokens_out);

/* A question to a model. Strings are NUL-terminated, and may contain earlier NULs. Borrowed until the callback returns. */
typedef struct membrane_model_request {
  const char* system;
  size_t system_size;
  const char* prompt;
  size_t prompt_size;
  uint32_t max_tokens; /* that the answer may have */
  uint64_t timeout_ms;
} membrane_model_request;

/* Called on the thread of the turn, or of a sandbox's run; forks and runs may call them concurrently. A NULL member is not provided. */
typedef struct membrane_agents {
  size_t size; /* sizeof(membrane_agents) */
  membrane_approval (*approve)(void* user_data, const membrane_egress_question* question);
  void (*complete)(void* user_data, const membrane_model_request* request, membrane_reply* reply);
  void (*embed)(void* user_data, const char* text, size_t size, uint64_t timeout_ms, membrane_reply* reply);
  void (*ask)(void* user_data, const char* question, size_t size, uint64_t timeout_ms, membrane_reply* reply);
  const membrane_flows* flows;
  const membrane_receipts* receipts;
} membrane_agents;

/* Gives the programs of a sandbox these, before its first run; what is NULL stays as it was. `agents` is borrowed for the call, and
 * `user_data` as long as programs may call the functions. False: nothing has changed. */
bool membrane_sandbox_use_agents(membrane_sandbox* sandbox, const membrane_agents* agents, void* user_data,
                                 membrane_error** error);

/* The file of the receipt, if the run was sealed; else NULL. */
const char* membrane_report_receipt(const membrane_report* report);
/* Why a run that was to be sealed has no receipt; else NULL. Valid as long as the report. */
const membrane_error* membrane_report_unsealed(membrane_report* report);

#ifdef __cplusplus
}
#endif

#endif
