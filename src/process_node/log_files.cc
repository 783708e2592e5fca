#include "process_node/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tf::process_node {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat about{};
    if (fd_ >= 0 && fstat(fd_, &about) == 0) inode_ = about.st_ino;
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool open_for_reading() const { return fd_ >= 0; }
  ino_t inode() const { return inode_; }

  // Whole lines that are there and have not been read, one by one. False when `line` wants no more.
  bool Lines(const std::function<bool(std::string_view)>& line) {
    char buffer[64 << 10];
    ssize_t got;
    while ((got = read(fd_, buffer, sizeof(buffer))) > 0) {
      rest_.append(buffer, static_cast<size_t>(got));
      size_t at = 0;
      for (size_t end; (end = rest_.find('\n', at)) != std::string::npos; at = end + 1) {
        if (!line(std::string_view(rest_).substr(at, end - at))) return false;
      }
      rest_.erase(0, at);
      // The shim writes no line longer than that.
      if (rest_.size() > (1 << 20)) rest_.clear();
    }
    return true;
  }

 private:
  int fd_;
  ino_t inode_ = 0;
  std::string rest_;
};

}  // namespace

std::optional<LogEntry> ParseLogLine(std::string_view line) {
  const size_t first = line.find(' ');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = line.find(' ', first + 1);
  if (second == std::string_view::npos || second + 2 >= line.size() || line[second + 2] != ' ') return std::nullopt;
  const char tag = line[second + 1];
  if (tag != 'F' && tag != 'P') return std::nullopt;
  return LogEntry{line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 3),
                  tag == 'P'};
}

absl::StatusOr<LogQuery> ParseLogQuery(const std::function<std::string_view(std::string_view)>& query, absl::Time now) {
  LogQuery parsed;
  const auto flag = [&](std::string_view name, bool& into) {
    const std::string_view text = query(name);
    into = text == "true" || text == "1";
    return text.empty() || into || text == "false" || text == "0";
  };
  for (const auto& [name, into] : {std::pair("follow", &parsed.follow), std::pair("previous", &parsed.previous),
                                   std::pair("timestamps", &parsed.timestamps)}) {
    if (!flag(name, *into)) return absl::InvalidArgumentError(absl::StrCat(name, ": expected true or false"));
  }
  const auto number = [&](std::string_view name, std::optional<int64_t>& into) {
    const std::string_view text = query(name);
    if (text.empty()) return true;
    int64_t value = 0;
    if (!absl::SimpleAtoi(Absl(text), &value) || value < 0) return false;
    into = value;
    return true;
  };
  if (!number("tailLines", parsed.tail_lines)) return absl::InvalidArgumentError("tailLines: expected a number");
  if (!number("limitBytes", parsed.limit_bytes)) return absl::InvalidArgumentError("limitBytes: expected a number");
  std::optional<int64_t> seconds;
  if (!number("sinceSeconds", seconds)) return absl::InvalidArgumentError("sinceSeconds: expected a number");
  if (seconds) parsed.since = now - absl::Seconds(*seconds);
  if (const std::string_view text = query("sinceTime"); !text.empty()) {
    absl::Time time;
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, Absl(text), &time, &error)) {
      return absl::InvalidArgumentError(absl::StrCat("sinceTime: ", error));
    }
    parsed.since = time;
  }
  parsed.stream = query("stream");
  return parsed;
}

absl::Status ReadLog(const std::string& folder, const LogQuery& query,
                     const std::function<bool(std::string_view)>& write, const std::function<bool()>& ended,
                     const std::function<bool()>& wait) {
  const std::string current = absl::StrCat(folder, "/log");
  auto file = std::make_unique<File>(current);
  if (!file->open_for_reading()) return absl::NotFoundError(absl::StrCat("there is no log in ", folder));

  int64_t left = query.limit_bytes.value_or(INT64_MAX);
  bool line_begins[2] = {true, true};
  std::string out;
  // False when the reader has enough.
  const auto flush = [&] {
    if (out.empty()) return true;
    if (static_cast<int64_t>(out.size()) > left) out.resize(static_cast<size_t>(left));
    left -= static_cast<int64_t>(out.size());
    const bool more = write(out) && left > 0;
    out.clear();
    return more;
  };
  const auto emit = [&](std::string_view line) {
    const std::optional<LogEntry> entry = ParseLogLine(line);
    if (!entry) return true;
    if (query.stream == "Stdout" && entry->stream != "stdout") return true;
    if (query.stream == "Stderr" && entry->stream != "stderr") return true;
    if (query.since) {
      absl::Time time;
      std::string error;
      if (absl::ParseTime(absl::RFC3339_full, Absl(entry->time), &time, &error) && time < *query.since) return true;
    }
    bool& begins = line_begins[entry->stream == "stderr" ? 1 : 0];
    if (query.timestamps && begins) absl::StrAppend(&out, Absl(entry->time), " ");
    absl::StrAppend(&out, Absl(entry->text));
    begins = !entry->partial;
    if (begins) out += '\n';
    return out.size() < (64 << 10) || flush();
  };

  // The past: the part before, then the current one. Opened in this order the second may have become the first: what
  // then is missing is the oldest part only.
  {
    File before(absl::StrCat(folder, "/log.1"));
    const bool rotated = before.open_for_reading() && before.inode() != file->inode();
    if (query.tail_lines) {
      // As many whole lines as are asked for; entries that are parts of one count once.
      std::deque<std::string> tail;
      const size_t wanted = static_cast<size_t>(*query.tail_lines);
      size_t whole = 0;
      const auto keep = [&](std::string_view line) {
        const std::optional<LogEntry> entry = ParseLogLine(line);
        if (!entry) return true;
        tail.emplace_back(line);
        if (!entry->partial) ++whole;
        while (whole > wanted && !tail.empty()) {
          if (!ParseLogLine(tail.front())->partial) --whole;
          tail.pop_front();
        }
        return true;
      };
      if (rotated) before.Lines(keep);
      file->Lines(keep);
      if (wanted == 0) tail.clear();
      for (const std::string& line : tail) {
        if (!emit(line)) return absl::OkStatus();
      }
    } else {
      if (rotated && !before.Lines(emit)) return absl::OkStatus();
      if (!file->Lines(emit)) return absl::OkStatus();
    }
    if (!flush()) return absl::OkStatus();
  }
  while (query.follow) {
    // Asked before the look: what was written before the end is seen.
    const bool over = ended();
    if (!file->Lines(emit) || !flush()) return absl::OkStatus();
    struct stat about{};
    if (stat(current.c_str(), &about) == 0 && about.st_ino != file->inode()) {
      // Rotated: what was added to the old one until then has been read above or is read now.
      if (!file->Lines(emit) || !flush()) return absl::OkStatus();
      file = std::make_unique<File>(current);
      continue;
    }
    if (over || !wait()) break;
  }
  return absl::OkStatus();
}

}  // namespace tf::process_node
