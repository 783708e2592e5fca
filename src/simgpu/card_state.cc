#include "simgpu/card_state.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf::simgpu {
namespace {

constexpr uint64_t kMagic = 0x5446'5349'4d47'0000 + kSharedLayout;
constexpr uint32_t kSlots = 128;  // processes per card
constexpr uint64_t kBucketNs = 125'000'000;
constexpr uint32_t kBuckets = 16;
constexpr uint64_t kWindowBuckets = 8;  // the last second
constexpr long kLivenessNs = 10'000'000;

uint64_t Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);  // the same for all processes of the machine
  return uint64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// When the process started, in clock ticks since boot; 0 when there is no such process or only its remains are left.
uint64_t StartTime(pid_t pid) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* after_name = std::strrchr(text, ')');
  if (!after_name) return 0;
  char state = 0;
  long threads = 0;
  unsigned long long start = 0;
  if (std::sscanf(after_name + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %llu",
                  &state, &threads, &start) != 3) {
    return 0;
  }
  // A killed process that its parent has not collected yet. (With more threads it is one whose first thread ended.)
  if ((state == 'Z' || state == 'X') && threads <= 1) return 0;
  return start;
}

}  // namespace

// Plain data: zeros are a valid empty slot.
struct CardState::Slot {
  int32_t pid;    // 0: free
  uint32_t turn;  // changes when the process is given the card; a futex
  uint64_t start_time;
  uint64_t memory;
  uint64_t ticket;  // not 0: waits for the card
  uint64_t busy_ns;
  uint64_t busy_since;  // not 0: executes
  struct {
    uint64_t index, busy_ns;
  } buckets[kBuckets];

  bool alive() const { return StartTime(pid) == start_time; }

  void AddBusy(uint64_t from, uint64_t to) {
    busy_ns += to - from;
    from = std::max(from, to - std::min(to, kBucketNs * (kBuckets - 1)));
    while (from < to) {
      uint64_t index = from / kBucketNs;
      uint64_t end = std::min(to, (index + 1) * kBucketNs);
      auto& bucket = buckets[index % kBuckets];
      if (bucket.index != index) bucket = {index, 0};
      bucket.busy_ns += end - from;
      from = end;
    }
  }

  uint32_t BusyPercent(uint64_t now) const {
    uint64_t first = now / kBucketNs - (kWindowBuckets - 1);
    uint64_t busy = 0;
    for (const auto& bucket : buckets) {
      if (bucket.index >= first) busy += bucket.busy_ns;
    }
    uint64_t begin = first * kBucketNs;
    if (busy_since) busy += now - std::max(begin, busy_since);
    return static_cast<uint32_t>(std::min<uint64_t>(100, (busy * 100 + (now - begin) / 2) / (now - begin)));
  }
};

struct CardState::Shared {
  pthread_mutex_t mutex;  // robust; protects everything below
  uint64_t memory_total;
  uint64_t next_ticket;
  uint64_t past_busy_ns;  // of processes that have left
  uint32_t owner;         // the executing process: its slot + 1; 0: nobody
  uint32_t slots_used;    // slots beyond were never used
  uint32_t waiting;       // slots with a ticket; read without the lock
  Slot slots[kSlots];
};

struct CardState::File {
  std::atomic<uint64_t> magic;  // written last
  uint64_t card_count;
  Shared cards[];
};

class CardState::Lock {
 public:
  explicit Lock(Shared& card) : mutex_(card.mutex) {
    // Each change under the lock leaves a valid state after every store, so a holder that died needs no repair.
    if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

absl::StatusOr<std::shared_ptr<CardState>> CardState::Open(CardList list) {
  std::string path = absl::StrCat("/dev/shm/tensor-fusion-sim-", geteuid(), "-", list.identity);
  size_t bytes = sizeof(File) + list.cards.size() * sizeof(Shared);
  auto failed = [&](const char* what) {
    return absl::UnavailableError(absl::StrCat("simulated cards share their state in ", path, ": ", what, ": ",
                                               std::strerror(errno), "; /dev/shm must be writable with ", bytes >> 10,
                                               " KiB free"));
  };
  for (;;) {
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failed("open");
    struct stat info;
    // The lock makes one process the creator. Whoever finds the file unlinked meanwhile starts again.
    if (flock(fd, LOCK_EX) != 0 || fstat(fd, &info) != 0) {
      auto error = failed("lock");
      close(fd);
      return error;
    }
    if (info.st_nlink == 0) {
      close(fd);
      continue;
    }
    if (info.st_uid != geteuid()) {
      close(fd);
      return absl::PermissionDeniedError(
          absl::StrCat(path, " belongs to user ", info.st_uid, ", expected ", geteuid(), "; remove it"));
    }
    // Pages are allocated now: a full file system is an error here and not a SIGBUS later.
    if (int rc = posix_fallocate(fd, 0, bytes); rc != 0) {
      errno = rc;
      auto error = failed("allocate");
      close(fd);
      return error;
    }
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      auto error = failed("map");
      close(fd);
      return error;
    }
    File* file = static_cast<File*>(address);
    if (file->magic.load(std::memory_order_acquire) != kMagic) {
      std::memset(address, 0, bytes);
      file->card_count = list.cards.size();
      pthread_mutexattr_t attributes;
      pthread_mutexattr_init(&attributes);
      pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
      for (size_t i = 0; i < list.cards.size(); ++i) {
        pthread_mutex_init(&file->cards[i].mutex, &attributes);
        file->cards[i].memory_total = list.cards[i].model->memory;
      }
      pthread_mutexattr_destroy(&attributes);
      file->magic.store(kMagic, std::memory_order_release);
    }
    flock(fd, LOCK_UN);  // closing alone would not: the mapping keeps the open file
    close(fd);
    return std::shared_ptr<CardState>(new CardState(std::move(list), file, bytes));
  }
}

CardState::~CardState() { munmap(file_, bytes_); }

uint64_t CardState::Used(const Shared& card) {
  uint64_t used = 0;
  for (uint32_t i = 0; i < card.slots_used; ++i) used += card.slots[i].memory;
  return used;
}

// Counted anew after each change, so that a death between two stores is no lasting error.
void CardState::CountWaiting(Shared& card) {
  uint32_t waiting = 0;
  for (uint32_t i = 0; i < card.slots_used; ++i) waiting += card.slots[i].ticket != 0;
  std::atomic_ref(card.waiting).store(waiting, std::memory_order_relaxed);
}

// Gives the card to the process that has waited longest.
void CardState::Grant(Shared& card) {
  Slot* next = nullptr;
  for (uint32_t i = 0; i < card.slots_used; ++i) {
    Slot& slot = card.slots[i];
    if (slot.ticket && (!next || slot.ticket < next->ticket)) next = &slot;
  }
  if (!next) return CountWaiting(card);
  next->ticket = 0;
  CountWaiting(card);
  next->busy_since = Now();
  card.owner = static_cast<uint32_t>(next - card.slots) + 1;
  std::atomic_ref(next->turn).fetch_add(1);
  syscall(SYS_futex, &next->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void CardState::Drop(Shared& card, uint32_t index) {
  Slot& slot = card.slots[index];
  if (slot.busy_since) slot.AddBusy(slot.busy_since, Now());
  card.past_busy_ns += slot.busy_ns;
  slot = Slot{};
  CountWaiting(card);
  if (card.owner == index + 1) {
    card.owner = 0;
    Grant(card);
  }
}

void CardState::Reap(Shared& card) {
  for (uint32_t i = 0; i < card.slots_used; ++i) {
    if (card.slots[i].pid && !card.slots[i].alive()) Drop(card, i);
  }
}

CardUse CardState::Read(int index) {
  const CardModel& model = *list_.cards[index].model;
  Shared& card = file_->cards[index];
  CardUse use{};
  uint64_t busy_percent = 0;
  {
    Lock lock(card);
    Reap(card);
    uint64_t now = Now();
    use.memory_total = card.memory_total;
    use.busy_ns = card.past_busy_ns;
    for (uint32_t i = 0; i < card.slots_used; ++i) {
      const Slot& slot = card.slots[i];
      if (!slot.pid) continue;
      uint64_t busy_ns = slot.busy_ns + (slot.busy_since ? now - slot.busy_since : 0);
      use.processes.push_back({slot.pid, slot.memory, busy_ns, slot.BusyPercent(now)});
      use.memory_used += slot.memory;
      use.busy_ns += busy_ns;
      busy_percent += use.processes.back().busy_percent;
    }
  }
  use.busy_percent = static_cast<uint32_t>(std::min<uint64_t>(100, busy_percent));
  use.memory_busy_percent = use.busy_percent * 3 / 5;
  use.power_limit = model.power_limit;
  use.power = model.idle_power + (model.power_limit - model.idle_power) / 100 * use.busy_percent * 9 / 10;
  use.temperature = 32 + use.busy_percent * 2 / 5;
  use.clock_sm = use.processes.empty() ? 210 : model.clock_mhz;
  use.clock_memory = model.memory_clock_mhz;
  use.fan_percent = model.ecc ? 0 : 30 + use.busy_percent * 2 / 5;  // the cards for servers have no fans
  return use;
}

absl::StatusOr<std::unique_ptr<CardMember>> CardState::Join(int index) {
  Shared& card = file_->cards[index];
  Lock lock(card);
  Reap(card);
  for (uint32_t i = 0; i < kSlots; ++i) {
    Slot& slot = card.slots[i];
    if (slot.pid) continue;
    slot.start_time = StartTime(getpid());
    card.slots_used = std::max(card.slots_used, i + 1);
    slot.pid = getpid();
    return std::unique_ptr<CardMember>(new CardMember(shared_from_this(), index, i));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("card ", index, " has ", kSlots, " processes already, the most that a simulated card serves"));
}

CardMember::CardMember(std::shared_ptr<CardState> state, int card, uint32_t slot)
    : state_(std::move(state)), card_(card), slot_(slot), pid_(getpid()) {}

CardState::Shared& CardMember::shared() const { return state_->file_->cards[card_]; }

CardMember::~CardMember() {
  if (getpid() != pid_) return;  // a forked child: the card is its parent's
  CardState::Lock lock(shared());
  CardState::Drop(shared(), slot_);
}

bool CardMember::Reserve(uint64_t bytes) {
  CardState::Shared& card = shared();
  CardState::Lock lock(card);
  auto fits = [&] {
    uint64_t used = CardState::Used(card);
    return used <= card.memory_total && bytes <= card.memory_total - used;
  };
  if (!fits()) {
    CardState::Reap(card);
    if (!fits()) return false;
  }
  card.slots[slot_].memory += bytes;
  return true;
}

void CardMember::Release(uint64_t bytes) {
  CardState::Lock lock(shared());
  shared().slots[slot_].memory -= bytes;
}

void CardMember::Info(uint64_t* free, uint64_t* total) {
  CardState::Shared& card = shared();
  CardState::Lock lock(card);
  CardState::Reap(card);
  *total = card.memory_total;
  *free = card.memory_total - std::min(card.memory_total, CardState::Used(card));
}

bool CardMember::Acquire(const std::atomic<bool>& cancel) {
  CardState::Shared& card = shared();
  CardState::Slot& slot = card.slots[slot_];
  uint32_t turn;
  {
    CardState::Lock lock(card);
    turn = std::atomic_ref(slot.turn).load();
    slot.ticket = ++card.next_ticket;
    CardState::CountWaiting(card);
    if (!card.owner) CardState::Grant(card);
    if (card.owner == slot_ + 1) return true;
  }
  for (;;) {
    timespec timeout{0, kLivenessNs};
    syscall(SYS_futex, &slot.turn, FUTEX_WAIT, turn, &timeout, nullptr, 0);
    CardState::Lock lock(card);
    if (card.owner && card.owner != slot_ + 1 && !card.slots[card.owner - 1].alive()) {
      CardState::Drop(card, card.owner - 1);
    }
    // Nobody, while somebody waits: the last owner died between giving up and handing on.
    if (!card.owner) CardState::Grant(card);
    if (card.owner == slot_ + 1) return true;
    if (cancel) {
      slot.ticket = 0;
      CardState::CountWaiting(card);
      return false;
    }
  }
}

void CardMember::Yield() {
  CardState::Shared& card = shared();
  CardState::Slot& slot = card.slots[slot_];
  CardState::Lock lock(card);
  slot.AddBusy(slot.busy_since, Now());
  slot.busy_since = 0;
  card.owner = 0;
  CardState::Grant(card);
}

int CardMember::Waiting() const {
  return static_cast<int>(std::atomic_ref(shared().waiting).load(std::memory_order_relaxed));
}

}  // namespace tf::simgpu
