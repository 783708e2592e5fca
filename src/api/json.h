// JSON of the API's objects to structs and back.
//
// Structs are plain aggregates, described with Boost.Describe. Rules, for all of them:
//  - A member bears the name of its JSON key. A name that C++ does not allow has an underscore at its end (`operator_`,
//    `namespace_`); an underscore inside stands for a dot (`requests_tflops` is "requests.tflops").
//  - std::optional: absent, or written, whatever the value. Where absence has a meaning of its own (a default other
//  than
//    zero, a block).
//  - Any other member: its blank value ("", 0, false, [], {}, an unset Time) is as good as absent and is not written,
//    unless the struct names it in kAlways: then it is written whenever its struct is.
//  - Nothing that was read is lost: what a struct does not know, and blank values that were written out, stay in its
//    member `extra` and are written back. Quantities and times keep their spelling. So JSON → struct →
//    JSON gives the same JSON, but for members of kAlways that were missing.
//
// FromJson fails with InvalidArgument that names the place: "spec.gpuPools[0].name: expected a string, found a number".
// Pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "kube/object.h"

namespace tf::api {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

// Instantiated, in the .cc file beside the struct's header, for every kind and for the structs that people use alone (a
// PodTemplate in a GPUPool): any other T is a link error.
template <typename T>
absl::StatusOr<T> FromJson(const Json& json);
// Kinds come with apiVersion and kind, whether they are set or not.
template <typename T>
Json ToJson(const T& value);

}  // namespace tf::api
