# What this machine can do for tests on true Kubernetes nodes, when it configures:
#
#   TF_TRUE_NODE   root, and what tools/setup --cluster installs: tools/cluster up
#   TF_IMAGES      tools/images too: what tools/setup --images installs
execute_process(COMMAND unshare --mount --net --pid --fork true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
find_program(TF_CONTAINERD containerd)
find_program(TF_RUNC runc PATHS /usr/sbin /sbin)
find_program(TF_IPTABLES iptables PATHS /usr/sbin /sbin)
find_file(TF_CNI_BRIDGE bridge PATHS /usr/lib/cni /opt/cni/bin NO_DEFAULT_PATH)
find_program(TF_BUILDAH buildah)
find_program(TF_MMDEBSTRAP mmdebstrap)
set(TF_TRUE_NODE FALSE)
set(TF_IMAGES FALSE)
if(refused EQUAL 0 AND TF_CONTAINERD AND TF_RUNC AND TF_IPTABLES AND TF_CNI_BRIDGE)
  set(TF_TRUE_NODE TRUE)
  if(TF_BUILDAH AND TF_MMDEBSTRAP)
    set(TF_IMAGES TRUE)
  endif()
endif()
if(NOT TF_IMAGES AND NOT TF_SANITIZE)
  message(STATUS "Tests on true Kubernetes nodes need root, and what tools/setup --cluster and --images install; not all are there")
endif()
