#include "operator/referenced_objects.h"

#include <openssl/sha.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/encoding.h"

namespace tf::operators {
namespace {

using kube::Json;
using kube::JsonObject;
using Kind = Reference::Kind;

// How long the first question for an object waits for the server's first answer.
constexpr absl::Duration kFirstAnswer = absl::Seconds(5);

const kube::Resource& ResourceOf(Kind kind) {
  return kind == Kind::kSecret ? kube::core::kSecret : kube::core::kConfigMap;
}

std::string Title(const ReferencedObjects::Name& name) {
  return absl::StrCat(KindName(name.kind), " ", name.ns, "/", name.name);
}

// Of a ConfigMap `data` is text and `binaryData` base64; of a Secret `data` is base64.
std::map<std::string, std::string> Decoded(Kind kind, const Json& object) {
  std::map<std::string, std::string> values;
  for (const char* field : {"data", "binaryData"}) {
    const Json* data = kube::Field(object, field);
    if (data == nullptr || !data->is_object()) continue;
    const bool encoded = kind == Kind::kSecret || field == std::string_view("binaryData");
    for (const auto& member : data->get_object()) {
      const boost::json::string* text = member.value().if_string();
      if (text == nullptr) continue;
      std::string value(text->data(), text->size());
      if (encoded) {
        std::string bytes;
        if (!absl::Base64Unescape(value, &bytes)) continue;  // the server lets none such in
        value = std::move(bytes);
      }
      values[std::string(member.key().data(), member.key().size())] = std::move(value);
    }
  }
  return values;
}

std::string DigestOf(const std::string& value) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(value.data()), value.size(), hash.data());
  return HexEncode({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

}  // namespace

struct ReferencedObjects::Watched {
  Watched(kube::Client& client, const Name& name, Clock* clock)
      : informer(client, ResourceOf(name.kind),
                 {.ns = name.ns,
                  .field_selector = absl::StrCat("metadata.name=", name.name),
                  .keep = {"data", "binaryData"},
                  .clock = clock}) {}

  kube::Informer informer;
  std::once_flag first_answer;
};

ReferencedObjects::ReferencedObjects(kube::Client& client, std::function<void()> changed, Clock* clock)
    : client_(client), changed_(std::move(changed)), clock_(clock) {}

ReferencedObjects::~ReferencedObjects() { Stop(); }

void ReferencedObjects::Stop() {
  std::map<Name, std::shared_ptr<Watched>> watched;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    watched.swap(watched_);
  }
  // Their threads end here, without the lock.
}

absl::StatusOr<kube::ObjectPtr> ReferencedObjects::Read(const std::string& pool, const Name& name) {
  std::shared_ptr<Watched> watched;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return absl::UnavailableError("the operator is stopping");
    std::shared_ptr<Watched>& known = watched_[name];
    if (known == nullptr) {
      known = std::make_shared<Watched>(client_, name, clock_);
      known->informer.AddHandler({.added = [this](const kube::ObjectPtr&, bool) { changed_(); },
                                  .updated = [this](const kube::ObjectPtr&, const kube::ObjectPtr&) { changed_(); },
                                  .deleted = [this](const kube::ObjectPtr&, bool) { changed_(); }});
      known->informer.Start();
    }
    used_[pool].insert(name);
    watched = known;
  }
  std::call_once(watched->first_answer, [&] { (void)watched->informer.WaitForSync(kFirstAnswer); });
  if (!watched->informer.synced()) {
    const std::string why = watched->informer.stats().last_error;
    return absl::UnavailableError(
        absl::StrCat(Title(name), " cannot be read: ", why.empty() ? "the API server has not answered yet" : why));
  }
  return watched->informer.Get({name.ns, name.name});
}

absl::StatusOr<Json> ReferencedObjects::Digests(const std::string& pool, const std::string& ns,
                                                const std::vector<Reference>& references) {
  JsonObject digests;
  for (const Reference& reference : references) {
    const Name name{reference.kind, ns, reference.name};
    const absl::StatusOr<kube::ObjectPtr> object = Read(pool, name);
    if (!object.ok()) return object.status();
    if (*object == nullptr) {
      if (reference.optional) continue;
      return absl::UnavailableError(absl::StrCat(Title(name), " is missing: the pod template references it"));
    }
    const std::map<std::string, std::string> values = Decoded(reference.kind, **object);
    Json& of_object = digests[absl::StrCat(KindName(reference.kind), "/", reference.name)];
    if (!of_object.is_object()) of_object.emplace_object();
    for (const std::string& key : reference.keys) {
      if (values.contains(key) || reference.optional) continue;
      return absl::UnavailableError(
          absl::StrCat(Title(name), " has no key '", key, "': the pod template references it"));
    }
    for (const auto& [key, value] : values) {
      if (!reference.keys.empty() && !reference.keys.contains(key)) continue;
      of_object.get_object()[key] = DigestOf(value);
    }
  }
  return digests;
}

absl::StatusOr<std::optional<ReferencedObjects::Values>> ReferencedObjects::ValuesOf(const std::string& pool,
                                                                                     const Name& name) {
  const absl::StatusOr<kube::ObjectPtr> object = Read(pool, name);
  if (!object.ok()) return object.status();
  if (*object == nullptr) return std::nullopt;
  return Decoded(name.kind, **object);
}

void ReferencedObjects::Keep(const std::string& pool, std::set<Name> names) {
  std::vector<std::shared_ptr<Watched>> ended;  // after the lock: their threads end there
  const std::lock_guard lock(mutex_);
  if (names.empty()) {
    used_.erase(pool);
  } else {
    used_[pool] = std::move(names);
  }
  for (auto one = watched_.begin(); one != watched_.end();) {
    bool used = false;
    for (const auto& [user, of_user] : used_) used = used || of_user.contains(one->first);
    if (!used) ended.push_back(std::move(one->second));
    one = used ? std::next(one) : watched_.erase(one);
  }
}

size_t ReferencedObjects::watches() const {
  const std::lock_guard lock(mutex_);
  return watched_.size();
}

}  // namespace tf::operators
