#include "placement/request.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/names.h"
#include "api/quantity.h"

namespace tf::placement {
namespace {

absl::Status Wrong(std::string_view annotation, std::string_view value, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("annotation ", std::string(annotation), ": expected ",
                                                 std::string(expected), ", found \"", std::string(value), "\""));
}

// 0 when there is none.
absl::StatusOr<api::Quantity> AmountOf(const kube::Json& pod, std::string_view annotation, std::string_view expected) {
  const std::string_view text = kube::Annotation(pod, annotation);
  if (text.empty()) return api::Quantity();
  absl::StatusOr<api::Quantity> amount = api::Quantity::Parse(text);
  if (!amount.ok() || amount->IsNegative()) return Wrong(annotation, text, expected);
  return amount;
}

absl::Status ReadPair(const kube::Json& pod, std::string_view request_name, std::string_view limit_name,
                      std::string_view expected, int64_t most, bool milli, int64_t& request, int64_t& limit) {
  const absl::StatusOr<api::Quantity> asked = AmountOf(pod, request_name, expected);
  if (!asked.ok()) return asked.status();
  const absl::StatusOr<api::Quantity> bound = AmountOf(pod, limit_name, expected);
  if (!bound.ok()) return bound.status();
  const auto value = [&](const api::Quantity& amount) {
    return std::min(milli ? amount.Milli() : amount.Units(), most);
  };
  request = value(asked->IsZero() ? *bound : *asked);
  limit = value(bound->IsZero() ? *asked : *bound);
  if (request > limit) {
    return Wrong(request_name, asked->Text(),
                 absl::StrCat("no more than ", std::string(limit_name), ", which is ", bound->Text()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Isolation> ParseIsolation(std::string_view text) {
  if (text == "soft" || text.empty()) return Isolation::kSoft;
  if (text == "hard") return Isolation::kHard;
  if (text == "shared") return Isolation::kShared;
  if (text == "partitioned") {
    return absl::UnimplementedError(absl::StrCat("annotation ", api::kIsolationAnnotation,
                                                 ": partitioned cards are not supported; soft, hard and shared are"));
  }
  return Wrong(api::kIsolationAnnotation, text, "soft, hard or shared");
}

std::string_view Name(Isolation isolation) {
  return isolation == Isolation::kSoft ? "soft" : isolation == Isolation::kHard ? "hard" : "shared";
}

absl::StatusOr<Request> RequestOf(const kube::Json& pod) {
  Request request;
  request.pool = std::string(kube::Annotation(pod, api::kPoolAnnotation));
  if (request.pool.empty()) request.pool = std::string(kube::Label(pod, api::kPoolLabel));
  if (request.pool.empty()) return Wrong(api::kPoolAnnotation, "", "the name of a GPUPool");
  request.vendor = std::string(kube::Annotation(pod, api::kVendorAnnotation));
  request.model = std::string(kube::Annotation(pod, api::kGpuModelAnnotation));
  const absl::StatusOr<Isolation> isolation = ParseIsolation(kube::Annotation(pod, api::kIsolationAnnotation));
  if (!isolation.ok()) return isolation.status();
  request.isolation = *isolation;

  absl::Status read =
      ReadPair(pod, api::kTflopsRequestAnnotation, api::kTflopsLimitAnnotation, "TFLOPS such as 20 or 500m",
               kMostMilliTflops, true, request.request.millitflops, request.limit.millitflops);
  if (read.ok()) {
    read = ReadPair(pod, api::kVramRequestAnnotation, api::kVramLimitAnnotation, "bytes such as 4Gi", kMostVram, false,
                    request.request.vram, request.limit.vram);
  }
  if (read.ok()) {
    read = ReadPair(pod, api::kComputeRequestAnnotation, api::kComputeLimitAnnotation, "percent from 0 to 100",
                    kMostMilliTflops, true, request.request_millipercent, request.limit_millipercent);
  }
  if (!read.ok()) return read;
  if (request.limit_millipercent > 100'000) {
    const bool limit = !kube::Annotation(pod, api::kComputeLimitAnnotation).empty();
    const char* name = limit ? api::kComputeLimitAnnotation : api::kComputeRequestAnnotation;
    return Wrong(name, kube::Annotation(pod, name), "percent from 0 to 100");
  }
  if (request.limit.millitflops > 0 && request.limit_millipercent > 0) {
    return absl::InvalidArgumentError(absl::StrCat("annotations ", api::kTflopsRequestAnnotation, " and ",
                                                   api::kComputeRequestAnnotation,
                                                   " (or their limits): expected one of them, found both"));
  }

  if (const std::string_view text = kube::Annotation(pod, api::kGpuIndicesAnnotation); !text.empty()) {
    for (absl::string_view part : absl::StrSplit(std::string(text), ',')) {
      int32_t index = 0;
      if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(part), &index) || index < 0 ||
          std::find(request.indices.begin(), request.indices.end(), index) != request.indices.end()) {
        return Wrong(api::kGpuIndicesAnnotation, text, "different numbers of cards, such as 0,3");
      }
      request.indices.push_back(index);
    }
    if (request.indices.size() > kMostCards) {
      return Wrong(api::kGpuIndicesAnnotation, text, absl::StrCat("at most ", kMostCards, " cards"));
    }
    request.count = static_cast<int>(request.indices.size());
  }
  if (const std::string_view text = kube::Annotation(pod, api::kGpuCountAnnotation); !text.empty()) {
    int count = 0;
    if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &count) || count < 1 || count > kMostCards) {
      return Wrong(api::kGpuCountAnnotation, text, absl::StrCat("a number from 1 to ", kMostCards));
    }
    if (request.indices.empty()) {
      request.count = count;
    } else if (count != request.count) {
      return Wrong(api::kGpuCountAnnotation, text,
                   absl::StrCat(request.count, ", as many as ", api::kGpuIndicesAnnotation, " names"));
    }
  }
  if (request.isolation != Isolation::kShared && request.limit == Amount{} && request.limit_millipercent == 0) {
    return absl::InvalidArgumentError(absl::StrCat("expected an annotation ", api::kTflopsRequestAnnotation, ", ",
                                                   api::kComputeRequestAnnotation, " or ", api::kVramRequestAnnotation,
                                                   " (or their limits) above 0, found none"));
  }
  return request;
}

std::vector<std::string> CardsOf(const kube::Json& pod) {
  std::vector<std::string> cards;
  const std::string text(kube::Annotation(pod, api::kGpuIdsAnnotation));
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    cards.emplace_back(absl::StripAsciiWhitespace(part));
  }
  return cards;
}

std::string Text(const Request& request) {
  std::string text = absl::StrCat(request.count, request.count == 1 ? " card" : " cards");
  if (!request.model.empty()) absl::StrAppend(&text, " of model ", request.model);
  if (!request.vendor.empty()) absl::StrAppend(&text, " of vendor ", request.vendor);
  if (request.isolation == Isolation::kShared) return absl::StrCat(text, ", whole");
  std::vector<std::string> amounts;
  if (request.request_millipercent > 0) {
    amounts.push_back(absl::StrCat(api::Quantity::FromMilli(request.request_millipercent).Canonical(), " %"));
  } else if (request.request.millitflops > 0) {
    amounts.push_back(absl::StrCat(api::Quantity::FromMilli(request.request.millitflops).Canonical(), " TFLOPS"));
  }
  if (request.request.vram > 0) amounts.push_back(api::Quantity::FromBytes(request.request.vram).Canonical());
  for (size_t i = 0; i < amounts.size(); ++i) absl::StrAppend(&text, i == 0 ? " with " : " and ", amounts[i]);
  return text;
}

}  // namespace tf::placement
