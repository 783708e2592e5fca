#include "http/client.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace tf::http {
namespace {

constexpr size_t kMaxIdle = 32;                        // connections that are kept,
constexpr absl::Duration kIdle = absl::Seconds(90);    // and for how long
constexpr size_t kMaxHead = 256 << 10;                 // bytes of an answer's head
constexpr absl::Duration kMaxWait = absl::Minutes(1);  // of one poll

void InitCurl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

// One connection at most, and who may use it: calls of several threads never share one.
struct Line {
  CURLM* multi = curl_multi_init();
  CURL* easy = curl_easy_init();
  std::string origin;  // what it is connected to
  uint64_t generation = 0;
  absl::Duration idle_since = {};

  Line() { curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L); }
  ~Line() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
};

class List {
 public:
  List() = default;
  ~List() { curl_slist_free_all(list_); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  void Add(const std::string& text) { list_ = curl_slist_append(list_, text.c_str()); }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool IsHeaderValue(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\t' || !absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

struct Url {
  std::string scheme, host, port, rest;  // host as written, an IPv6 address in its brackets
};

absl::StatusOr<Url> ParseUrl(const std::string& url) {
  auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("cannot call \"", url.substr(0, 200), "\": ", why));
  };
  if (std::any_of(url.begin(), url.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f; })) {
    return bad("a URL has no spaces and no control characters; encode them as %20 and the like");
  }
  Url parsed;
  size_t colon = url.find("://");
  if (colon != std::string::npos) parsed.scheme = absl::AsciiStrToLower(url.substr(0, colon));
  if (parsed.scheme != "http" && parsed.scheme != "https") return bad("a URL begins with http:// or https://");
  size_t end = std::min(url.find_first_of("/?#", colon + 3), url.size());
  std::string authority = url.substr(colon + 3, end - colon - 3);
  parsed.rest = url.substr(end);
  if (authority.find('@') != std::string::npos) return bad("user names belong in a header, not in the URL");
  size_t bracket = authority.rfind(']');
  size_t port = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  parsed.host = authority.substr(0, port);
  parsed.port = port != std::string::npos ? authority.substr(port + 1) : parsed.scheme == "https" ? "443" : "80";
  if (parsed.host.empty()) return bad("there is no host in it");
  return parsed;
}

// What a call has come to. Callbacks of curl work on it.
struct Progress {
  const ClientRequest& request;
  const std::function<bool(std::string_view)>* sink;  // null: collect
  ClientResponse response = {};
  absl::Duration last_byte = {};
  size_t head_bytes = 0;
  bool head_done = false;
  bool has_body = false;
  bool stopped = false;  // by sink
  int attempts = 0;
  std::exception_ptr thrown = {};
  absl::Status error = {};  // why a callback ended the call
};

bool IsSafe(std::string_view method) { return method == "GET" || method == "HEAD" || method == "OPTIONS"; }

size_t OnHeader(char* data, size_t, size_t size, void* user) {
  Progress& progress = *static_cast<Progress*>(user);
  progress.last_byte = RealClock().Monotonic();
  absl::string_view line(data, size);
  if (progress.has_body) return size;  // trailers
  progress.head_bytes += size;
  if (progress.head_bytes > kMaxHead) {
    progress.error = absl::ResourceExhaustedError(absl::StrCat("the answer's head is over ", kMaxHead, " bytes"));
    return 0;
  }
  line = absl::StripAsciiWhitespace(line);
  ClientResponse& response = progress.response;
  if (absl::StartsWith(line, "HTTP/")) {  // also after an interim answer (100)
    response.headers.clear();
    response.status = 0;
    size_t space = line.find(' ');
    for (size_t i = space + 1; space != line.npos && i < line.size() && absl::ascii_isdigit(line[i]) && i < space + 4;
         ++i) {
      response.status = response.status * 10 + (line[i] - '0');
    }
  } else if (line.empty()) {
    progress.head_done = response.status >= 200;
  } else if (size_t colon = line.find(':'); colon != line.npos) {
    response.headers.emplace_back(absl::AsciiStrToLower(line.substr(0, colon)),
                                  std::string(absl::StripAsciiWhitespace(line.substr(colon + 1))));
  }
  return size;
}

size_t OnBody(char* data, size_t, size_t size, void* user) {
  Progress& progress = *static_cast<Progress*>(user);
  progress.has_body = true;
  if (progress.sink != nullptr && progress.response.status / 100 == 2) {
    bool go_on = false;
    try {
      go_on = (*progress.sink)(std::string_view(data, size));
    } catch (...) {
      progress.thrown = std::current_exception();
    }
    progress.last_byte = RealClock().Monotonic();  // the time that `sink` took is no silence
    if (go_on) return size;
    progress.stopped = true;
    return 0;
  }
  progress.last_byte = RealClock().Monotonic();
  std::string& body = progress.response.body;
  if (body.size() + size > progress.request.max_body) {
    progress.error = absl::ResourceExhaustedError(
        absl::StrCat("the answer is over its limit of ", progress.request.max_body, " bytes"));
    return 0;
  }
  body.append(data, size);
  return size;
}

// Before a request is sent. curl sends again by itself when a kept connection turns out to be closed, whatever the
// method; a request that changes something must not be sent twice.
int OnRequest(void* user, char*, char*, int, int) {
  Progress& progress = *static_cast<Progress*>(user);
  int allowed = IsSafe(progress.request.method) ? 2 : 1;
  return ++progress.attempts <= allowed ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

// A peer that vanished without a word (power, network) is noticed within half a minute. And a connection that we close,
// or that ends with our process, takes back what has not reached the peer: the system would otherwise go on sending it
// for minutes, and a write would arrive long after its time limit.
int OnSocket(void*, curl_socket_t socket, curlsocktype purpose) {
  if (purpose == CURLSOCKTYPE_IPCXN) {
    int on = 1, idle = 10, interval = 5, count = 4, unacknowledged_ms = 30'000;
    const linger none{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
  }
  return CURL_SOCKOPT_OK;
}

bool IsCertificateAlert(absl::string_view text) {
  if (!absl::StrContains(text, "alert")) return false;
  for (absl::string_view word : {"certificate", "unknown ca", "access denied"}) {
    if (absl::StrContains(text, word)) return true;
  }
  return false;
}

absl::Status ErrorOf(CURLcode code, const char* detail, const Progress& progress) {
  std::string text = *detail != 0 ? detail : curl_easy_strerror(code);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(
          absl::StrCat("no connection within ", absl::FormatDuration(progress.request.connect_limit)));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::UnauthenticatedError(absl::StrCat("the server's certificate is not trusted: ", text));
    case CURLE_SSL_CACERT_BADFILE:
      return absl::UnauthenticatedError(absl::StrCat("the certificates to trust cannot be used: ", text));
    case CURLE_SSL_CERTPROBLEM:
      return absl::UnauthenticatedError(absl::StrCat("our certificate or its key cannot be used: ", text));
    case CURLE_URL_MALFORMAT:
      return absl::InvalidArgumentError(absl::StrCat("the URL cannot be called: ", text));
    case CURLE_ABORTED_BY_CALLBACK:
      return absl::UnavailableError("the server closed the connection without an answer");
    default:
      if (IsCertificateAlert(text)) {
        return absl::UnauthenticatedError(absl::StrCat("the server refused our certificate: ", text));
      }
      return absl::UnavailableError(text);
  }
}

}  // namespace

std::string_view ClientResponse::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

struct Client::State {
  std::string proxy_url;
  std::string user_agent;

  std::mutex mutex;
  std::shared_ptr<const TlsSettings> tls;
  uint64_t generation = 0;
  std::vector<std::unique_ptr<Line>> idle;  // the last is the one used last

  std::unique_ptr<Line> Take(const std::string& origin, bool fresh) {
    std::lock_guard lock(mutex);
    for (size_t i = idle.size(); !fresh && i-- > 0;) {
      if (idle[i]->origin == origin) {
        auto line = std::move(idle[i]);
        idle.erase(idle.begin() + i);
        return line;
      }
    }
    auto line = std::make_unique<Line>();
    line->origin = origin;
    line->generation = generation;
    return line;
  }

  void GiveBack(std::unique_ptr<Line> line, bool usable) {
    std::vector<std::unique_ptr<Line>> closed;  // closing may send and free: not under the lock
    std::lock_guard lock(mutex);
    if (!usable) {
      // What cut this connection has likely cut the others.
      closed.swap(idle);
      closed.push_back(std::move(line));
    } else if (line->generation != generation) {
      closed.push_back(std::move(line));
    } else {
      line->idle_since = RealClock().Monotonic();
      while (!idle.empty() && (idle.size() >= kMaxIdle || line->idle_since - idle.front()->idle_since > kIdle)) {
        closed.push_back(std::move(idle.front()));
        idle.erase(idle.begin());
      }
      idle.push_back(std::move(line));
    }
  }

  absl::StatusOr<ClientResponse> Call(const ClientRequest& request, const std::function<bool(std::string_view)>* sink,
                                      Cancel* cancel);
  absl::Status SetUp(Line& line, const ClientRequest& request, const TlsSettings& settings, const Url& url,
                     List& headers, List& connect_to, char* detail, Progress& progress);
  absl::Status Run(Line& line, Progress& progress, Cancel* cancel, const char* detail);
};

absl::Status Client::State::SetUp(Line& line, const ClientRequest& request, const TlsSettings& settings, const Url& url,
                                  List& headers, List& connect_to, char* detail, Progress& progress) {
  if (!IsToken(request.method)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", request.method, "\" is no HTTP method"));
  }
  bool has_type = false, has_host = false;
  for (const auto& [name, value] : request.headers) {
    if (!IsToken(name) || !IsHeaderValue(value)) {
      return absl::InvalidArgumentError(absl::StrCat("header \"", absl::CEscape(name),
                                                     "\" cannot be sent: its name or value has a character that "
                                                     "HTTP does not allow there"));
    }
    headers.Add(value.empty() ? name + ";" : absl::StrCat(name, ": ", value));
    has_type = has_type || absl::EqualsIgnoreCase(name, "content-type");
    has_host = has_host || absl::EqualsIgnoreCase(name, "host");
  }
  headers.Add("Expect:");
  if (!has_type) headers.Add("Content-Type:");

  CURL* easy = line.easy;
  auto set = [easy](CURLoption option, auto value) { curl_easy_setopt(easy, option, value); };
  curl_easy_reset(easy);
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // a name that is still being looked up does not hold up a cancelled call
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_PROXY, proxy_url.c_str());  // "": none, not even of the environment
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_USERAGENT, user_agent.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_BUFFERSIZE, 64L << 10);
  set(CURLOPT_TCP_NODELAY, 1L);
  set(CURLOPT_SOCKOPTFUNCTION, OnSocket);
  set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(std::clamp<int64_t>(absl::ToInt64Milliseconds(request.connect_limit), 1, 24 * 3600 * 1000)));

  // The name that is verified is the URL's; so a name of its own goes into the URL and the true address beside it.
  if (url.scheme == "https" && !settings.server_name.empty()) {
    set(CURLOPT_URL, absl::StrCat("https://", settings.server_name, ":", url.port, url.rest).c_str());
    connect_to.Add(absl::StrCat(settings.server_name, ":", url.port, ":", url.host, ":", url.port));
    set(CURLOPT_CONNECT_TO, connect_to.get());
    if (!has_host) headers.Add(absl::StrCat("Host: ", url.host, url.port == "443" ? "" : ":" + url.port));
  } else {
    set(CURLOPT_URL, request.url.c_str());
  }
  set(CURLOPT_HTTPHEADER, headers.get());

  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  auto blob = [](const std::string& text) {
    return curl_blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
  };
  if (settings.insecure) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  } else if (!settings.ca_pem.empty()) {
    curl_blob ca = blob(settings.ca_pem);
    set(CURLOPT_CAINFO_BLOB, &ca);
    set(CURLOPT_CAPATH, static_cast<char*>(nullptr));  // else the system's are trusted too
  }
  if (!settings.certificate_pem.empty()) {
    curl_blob certificate = blob(settings.certificate_pem), key = blob(settings.key_pem);
    set(CURLOPT_SSLCERT_BLOB, &certificate);
    set(CURLOPT_SSLCERTTYPE, "PEM");
    set(CURLOPT_SSLKEY_BLOB, &key);
    set(CURLOPT_SSLKEYTYPE, "PEM");
  }

  bool body_wanted = request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (!request.body.empty() || body_wanted) {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else {
    set(CURLOPT_HTTPGET, 1L);
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

  set(CURLOPT_HEADERFUNCTION, OnHeader);
  set(CURLOPT_HEADERDATA, &progress);
  set(CURLOPT_WRITEFUNCTION, OnBody);
  set(CURLOPT_WRITEDATA, &progress);
  set(CURLOPT_PREREQFUNCTION, OnRequest);
  set(CURLOPT_PREREQDATA, &progress);
  return absl::OkStatus();
}

absl::Status Client::State::Run(Line& line, Progress& progress, Cancel* cancel, const char* detail) {
  const ClientRequest& request = progress.request;
  const absl::Duration start = RealClock().Monotonic();
  progress.last_byte = start;
  for (;;) {
    if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("cancelled");
    int running = 0;
    if (CURLMcode code = curl_multi_perform(line.multi, &running); code != CURLM_OK) {
      return absl::InternalError(curl_multi_strerror(code));
    }
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(line.multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      if (progress.thrown || progress.stopped) return absl::OkStatus();
      if (!progress.error.ok()) return progress.error;
      if (CURLcode code = message->data.result; code != CURLE_OK) return ErrorOf(code, detail, progress);
      // curl is content with an answer that ends within its head.
      if (!progress.head_done)
        return absl::UnavailableError("the server closed the connection within the answer's head");
      return absl::OkStatus();
    }

    const absl::Duration now = RealClock().Monotonic();
    absl::Duration wait = kMaxWait;
    if (now - start >= request.total_limit) {
      return absl::DeadlineExceededError(
          absl::StrCat("no complete answer within ", absl::FormatDuration(request.total_limit)));
    }
    wait = std::min(wait, request.total_limit - (now - start));
    if (!progress.head_done) {
      if (now - start >= request.head_limit) {
        return absl::DeadlineExceededError(absl::StrCat("no answer within ", absl::FormatDuration(request.head_limit)));
      }
      wait = std::min(wait, request.head_limit - (now - start));
    }
    if (now - progress.last_byte >= request.silence_limit) {
      return absl::DeadlineExceededError(
          absl::StrCat("the server was silent for ", absl::FormatDuration(request.silence_limit)));
    }
    wait = std::min(wait, request.silence_limit - (now - progress.last_byte));
    curl_multi_poll(line.multi, nullptr, 0,
                    static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)))), nullptr);
  }
}

absl::StatusOr<ClientResponse> Client::State::Call(const ClientRequest& request,
                                                   const std::function<bool(std::string_view)>* sink, Cancel* cancel) {
  absl::StatusOr<Url> url = ParseUrl(request.url);
  if (!url.ok()) return url.status();
  std::shared_ptr<const TlsSettings> settings;
  {
    std::lock_guard lock(mutex);
    settings = tls;
  }
  std::unique_ptr<Line> line =
      Take(absl::StrCat(url->scheme, "://", url->host, ":", url->port), request.fresh_connection);
  List headers, connect_to;
  char detail[CURL_ERROR_SIZE] = "";
  Progress progress{.request = request, .sink = sink};

  absl::Status status = SetUp(*line, request, *settings, *url, headers, connect_to, detail, progress);
  if (!status.ok()) {
    GiveBack(std::move(line), true);
    return status;
  }
  curl_multi_add_handle(line->multi, line->easy);
  {
    std::optional<Cancel::Waker> waker;
    if (cancel != nullptr) waker.emplace(*cancel, [multi = line->multi] { curl_multi_wakeup(multi); });
    status = Run(*line, progress, cancel, detail);
  }
  curl_multi_remove_handle(line->multi, line->easy);  // closes the connection unless the answer is complete
  curl_easy_reset(line->easy);                        // it points to what is on this stack
  GiveBack(std::move(line), status.ok() || absl::IsCancelled(status) || absl::IsResourceExhausted(status));

  if (progress.thrown) std::rethrow_exception(progress.thrown);
  if (!status.ok()) {
    std::string place = request.url.substr(0, request.url.find('?'));
    return absl::Status(status.code(), absl::StrCat(request.method, " ", place, ": ", status.message()));
  }
  return std::move(progress.response);
}

Client::Client(TlsSettings tls, std::string proxy_url, std::string user_agent) : state_(std::make_unique<State>()) {
  InitCurl();
  state_->tls = std::make_shared<const TlsSettings>(std::move(tls));
  state_->proxy_url = std::move(proxy_url);
  state_->user_agent = std::move(user_agent);
}

Client::~Client() = default;

void Client::SetTls(TlsSettings tls) {
  std::vector<std::unique_ptr<Line>> closed;
  std::lock_guard lock(state_->mutex);
  state_->tls = std::make_shared<const TlsSettings>(std::move(tls));
  ++state_->generation;
  closed.swap(state_->idle);
}

absl::StatusOr<ClientResponse> Client::Call(const ClientRequest& request, Cancel* cancel) {
  return state_->Call(request, nullptr, cancel);
}

absl::StatusOr<ClientResponse> Client::Stream(const ClientRequest& request,
                                              const std::function<bool(std::string_view)>& sink, Cancel* cancel) {
  return state_->Call(request, &sink, cancel);
}

}  // namespace tf::http
