// libcurl, loaded when the first call needs it.
//
// libcurl and what it pulls in cost milliseconds at process start, and most runs
// never touch the network. So nothing links it: curl() opens libcurl.so.4 on first
// use and hands out its functions as a typed table. Options and constants come from
// <curl/curl.h>, which costs nothing.
//
//   MEMBRANE_ASSIGN(const CurlApi* api, curl());
//   CURL* easy = api->easy_init();
//
// Threads: curl() may be called from any thread; the table is immutable.
#pragma once

#include <curl/curl.h>

#include "base/result.h"

namespace membrane {

// X(member, function): every libcurl function that Membrane calls.
#define MEMBRANE_CURL_FUNCTIONS(X)                 \
  X(easy_init, curl_easy_init)                     \
  X(easy_cleanup, curl_easy_cleanup)               \
  X(easy_reset, curl_easy_reset)                   \
  X(easy_setopt, curl_easy_setopt)                 \
  X(easy_getinfo, curl_easy_getinfo)               \
  X(easy_perform, curl_easy_perform)               \
  X(easy_pause, curl_easy_pause)                   \
  X(easy_strerror, curl_easy_strerror)             \
  X(easy_escape, curl_easy_escape)                 \
  X(free_string, curl_free)                        \
  X(multi_init, curl_multi_init)                   \
  X(multi_cleanup, curl_multi_cleanup)             \
  X(multi_add_handle, curl_multi_add_handle)       \
  X(multi_remove_handle, curl_multi_remove_handle) \
  X(multi_perform, curl_multi_perform)             \
  X(multi_poll, curl_multi_poll)                   \
  X(multi_wakeup, curl_multi_wakeup)               \
  X(multi_info_read, curl_multi_info_read)         \
  X(slist_append, curl_slist_append)               \
  X(slist_free_all, curl_slist_free_all)           \
  X(url_new, curl_url)                             \
  X(url_cleanup, curl_url_cleanup)                 \
  X(url_dup, curl_url_dup)                         \
  X(url_get, curl_url_get)                         \
  X(url_set, curl_url_set)                         \
  X(url_strerror, curl_url_strerror)               \
  X(getdate, curl_getdate)                         \
  X(version_info, curl_version_info)

struct CurlApi {
#define X(member, function) decltype(&::function) member = nullptr;
  MEMBRANE_CURL_FUNCTIONS(X)
#undef X
};

// The table, valid until the process ends. kUnsupported when libcurl.so.4 is missing or too old; every call returns
// the same result.
Result<const CurlApi*> curl();

}  // namespace membrane
