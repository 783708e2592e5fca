// What of a component's configuration needs a restart, in a form that is the same for all ways to write it, and a
// digest of that.
//
// The same text comes out
// - for any order of an object's members, with and without null members and empty lists, and for 3 and 3.0;
// - with and without `creationTimestamp`, `status`, managed metadata, and empty labels and annotations;
// - with and without the defaults that our schema has, or that the API server writes into a pod and nothing of ours
//   sets otherwise (probes' times, `protocol: TCP`, modes of volumes …);
// - for any spelling of an amount in resources (1, "1", "1000m") and of a volume's size limit;
// - for any order of lists that are maps or sets in meaning: volumes, volumeMounts, volumeDevices, ports, tolerations,
//   imagePullSecrets, topologySpreadConstraints, added and dropped capabilities; and of env, unless a name occurs twice
//   or a value refers to another variable with $(NAME): then the order means something and stays.
// The order of containers, commands, arguments, envFrom and every other list stays. In patches (patchToPod,
// patchToContainer) null deletes and a written-out default overrides, so only the order of members, numbers and amounts
// are levelled. What is not known is kept as it is: an unneeded restart is better than a change that does not arrive.
// Pure functions.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace tf::rollout {

// A core/v1 PodTemplateSpec, {metadata, spec}; of metadata the labels and annotations count.
boost::json::value CanonicalPodTemplate(const boost::json::value& pod_template);

// A block of spec.componentConfig: worker, hypervisor or client. Fields that have no effect do not count.
boost::json::value CanonicalComponent(const boost::json::value& block);

// As one line of JSON: members by name, no blanks, whole numbers without a fraction.
std::string CanonicalText(const boost::json::value& value);

// SHA-256 of the text, its first 16 hexadecimal digits: fit for a label and a name. Two texts may have the same digest
// if somebody wants them to; who relies on it compares the texts.
std::string Digest(std::string_view text);

}  // namespace tf::rollout
