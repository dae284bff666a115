/* Sessions in a C program: Python, JavaScript and other installed languages, turn by turn. see session.hpp for what they are; ownership and
 * errors are as in membrane.h.
 *
 *   membrane_language *python = membrane_language_open("python", NULL, NULL, NULL);
 *   membrane_session_options options = {.size = sizeof options};
 *   membrane_session *session = membrane_session_new(python, &options, NULL);
 *   membrane_report *report = membrane_session_run(session, &(membrane_cell){.size = sizeof(membrane_cell), .code = "20 + 22"});
 *   puts(membrane_report_result(report, NULL));
 */
#ifndef MEMBRANE_SESSION_H
#define MEMBRANE_SESSION_H

#include <membrane/agents.h>
#include <membrane/membrane.h>
#include <membrane/sources.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The limits of programs in languages, instead of those of membrane_policy_new(). */
membrane_policy* membrane_policy_new_for_languages(void);

/* -- languages ---------------------------------------------------------------------------------- */

/* A language that is ready to run. Threads: any; sessions keep it alive. */
typedef struct membrane_language membrane_language;

typedef void (*membrane_listener)(void* user_data, const char* text, size_t size);

/* `on_progress` may be NULL; it is called for steps that take seconds, the first time. */
membrane_language* membrane_language_open(const char* name, membrane_listener on_progress, void* user_data,
                                          membrane_error** error);
void membrane_language_free(membrane_language* language);

/* -- functions of yours ------------------------------------------------------------------------- */

/* A call of one of your functions. Strings are borrowed: in a callback until it returns, from a report as long as the
 * report lives. */
typedef struct membrane_function_call {
  const char* name;      /* "price"; of a module "shop.price"; of a class "Account.deposit" */
  const char* arguments; /* a JSON array */
  const char* keywords;  /* a JSON object */
  const char* object;    /* of a method: the id of its object, as JSON; else "" */
  const void* turn;      /* of the library; NULL in a report */
} membrane_function_call;

/* Whether the calling turn must end: it was cancelled, or its time is up. The turn cannot end before the callback has
 * returned, so a long callback should poll this, on any thread, until it returns. False for a call from a report. */
bool membrane_function_call_must_stop(const membrane_function_call* call);

typedef struct membrane_answer membrane_answer;

/* A callback's answer; each call replaces the previous one, and without any the program gets an error. Strings are
 * copied. */
void membrane_answer_value(membrane_answer* answer, const char* json,
                           size_t size); /* size 0: to the 0 at its end */
void membrane_answer_error(membrane_answer* answer, const char* type, const char* message);
void membrane_answer_later(membrane_answer* answer); /* the turn waits: membrane_session_resume */

/* Answers concurrent calls, in their order, on the thread of the turn. */
typedef void (*membrane_functions_callback)(void* user_data, const membrane_function_call* calls,
                                            size_t count, membrane_answer* const* answers);

typedef struct membrane_guest_function {
  const char* module;    /* NULL: among the program's own names */
  const char* name;      /* an identifier */
  const char* signature; /* as Python has it: "(item: str, count: int = 1) -> int"; may be NULL */
  const char* doc;       /* may be NULL */
  bool is_async;         /* programs await it */
} membrane_guest_function;

typedef struct membrane_input {
  const char* name;
  const char* json;
} membrane_input;

/* -- sessions ----------------------------------------------------------------------------------- */

typedef struct membrane_session_options {
  size_t size; /* sizeof(membrane_session_options): fields that a caller does not know are 0 */
  const membrane_policy* policy; /* NULL: membrane_policy_new_for_languages() */
  const membrane_guest_function* functions;
  size_t function_count;
  const membrane_input* inputs; /* names of the program's own, and their values */
  size_t input_count;
  membrane_functions_callback call; /* must be there where there are functions */
  membrane_listener on_stdout;      /* hear UTF-8 as it is written, on the thread of the turn; may be NULL */
  membrane_listener on_stderr;
  void* user_data;                 /* of all callbacks; borrowed as long as the session and its forks live */
  const membrane_budget* budget;   /* shared with other runs; may be NULL */
  const membrane_sources* sources; /* clock, time zone, sleep and entropy; may be NULL */
  bool isolated; /* in a process of its own, behind walls: SessionOptions::isolated in session.hpp */
  const char* const* accepted_missing_walls; /* names of those that it may do without; may be NULL */
  size_t accepted_missing_wall_count;
  const membrane_agents* agents; /* approval, a model, a person and receipts (agents.h); may be NULL */
} membrane_session_options;

/* Threads: one at a time, except for _cancel; forks are independent. */
typedef struct membrane_session membrane_session;

/* `options` may be NULL. */
membrane_session* membrane_session_new(const membrane_language* language,
                                       const membrane_session_options* options, membrane_error** error);
/* Continues from the bytes of membrane_session_dump. `bytes` are borrowed for the call. */
membrane_session* membrane_session_load(const membrane_language* language, const uint8_t* bytes, size_t size,
                                        const membrane_session_options* options, membrane_error** error);

typedef struct membrane_cell {
  size_t size; /* sizeof(membrane_cell) */
  const char* code;
  size_t code_size; /* 0: to the 0 at its end */
  const char* name; /* for tracebacks; NULL: "<cell 1>", and so on */
  bool is_script;   /* a whole program, which leaves no state but files */
  bool only_checks; /* says what is wrong with the text, and runs nothing of it */
  const char* const* arguments;
  size_t argument_count;
  const char* input;
  size_t input_size;
  const membrane_input*
      inputs; /* variables of this turn, which stay: Cell::inputs in session.hpp; may be NULL */
  size_t input_count;
} membrane_cell;

/* Any failure is in the report; NULL if out of memory. For the outcome "waiting" see membrane_report_waiting_count. */
membrane_report* membrane_session_run(membrane_session* session, const membrane_cell* cell);
/* Answers the waiting calls, in their order: each with a JSON value or, where `errors[i]` is not NULL, with that
 * message as an error. Both arrays may be NULL. The turn keeps waiting while answers are missing. */
membrane_report* membrane_session_resume(membrane_session* session, const char* const* values,
                                         const char* const* errors, size_t count);
/* Abandons the waiting turn: the session returns to its state before the turn. False, with an error, if no turn waits. */
bool membrane_session_abandon(membrane_session* session, membrane_error** error);
membrane_session* membrane_session_fork(membrane_session* session, membrane_error** error);
/* Free the bytes with membrane_bytes_free. */
uint8_t* membrane_session_dump(const membrane_session* session, size_t* size, membrane_error** error);
uint8_t* membrane_session_read_file(const membrane_session* session, const char* path, size_t* size,
                                    membrane_error** error);
bool membrane_session_write_file(membrane_session* session, const char* path, const uint8_t* bytes,
                                 size_t size, membrane_error** error);
void membrane_session_cancel(membrane_session* session); /* any thread */
void membrane_session_free(membrane_session* session);

/* The calls that the session waits for, from its report. NULL past the last. */
size_t membrane_report_waiting_count(const membrane_report* report);
const membrane_function_call* membrane_report_waiting(membrane_report* report, size_t index);
/* The value in one representation, such as "text/html"; NULL if it has none. Images are base64. */
const char* membrane_report_form(const membrane_report* report, const char* type, size_t* size);

#ifdef __cplusplus
}
#endif

#endif
