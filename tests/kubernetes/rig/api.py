"""A small client of the API server: JSON over one kept connection with a client certificate."""
import http.client
import json
import ssl
import time

# kind -> (path of its group and version, plural); what the cluster itself and its tests use.
_KINDS = {
    "Namespace": ("/api/v1", "namespaces"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "MutatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
}


class ApiError(Exception):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """For one thread. Connections that the server closed are made anew."""

    def __init__(self, port, certificates, user="admin"):
        self._context = ssl.create_default_context(cafile=certificates / "ca.crt")
        self._context.load_cert_chain(certificates / f"{user}.crt", certificates / f"{user}.key")
        self._port = port
        self._connection = None

    def request(self, method, path, body=None, content_type="application/json", timeout=30):
        data = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            fresh = self._connection is None
            if fresh:
                self._connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=timeout)
            try:
                self._connection.request(method, path, data, {"Content-Type": content_type, "Accept": "application/json"})
                response = self._connection.getresponse()
                text = response.read()
                break
            except (OSError, http.client.HTTPException):
                self.close()
                # A kept connection may have been closed by the server meanwhile; only that is worth a second try.
                if fresh or attempt == 2:
                    raise
        if response.status >= 300:
            try:
                message = json.loads(text).get("message", "")
            except ValueError:
                message = text.decode(errors="replace")[:500]
            raise ApiError(response.status, f"{method} {path}: {message}")
        return json.loads(text) if response.headers.get_content_type() == "application/json" else text.decode()

    def __del__(self):
        self.close()

    def close(self):
        if self._connection:
            self._connection.close()
            self._connection = None

    def answers(self, path):
        """Whether a GET of PATH succeeds."""
        try:
            self.request("GET", path, timeout=5)
            return True
        except (OSError, http.client.HTTPException, ApiError):
            self.close()
            return False

    @staticmethod
    def path(kind, namespace=None, name=None):
        prefix, plural = _KINDS[kind]
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{prefix}{middle}/{plural}" + (f"/{name}" if name else "")

    def get(self, kind, namespace=None, name=None):
        return self.request("GET", self.path(kind, namespace, name))

    def items(self, kind, namespace=None, query=""):
        return self.request("GET", self.path(kind, namespace) + query)["items"]

    def create(self, *objects):
        for item in objects:
            self.request("POST", self.path(item["kind"], item["metadata"].get("namespace")), item)

    def delete(self, kind, namespace=None, name=None):
        return self.request("DELETE", self.path(kind, namespace, name))

    def apply(self, *objects):
        """Server-side apply: the same objects again change nothing."""
        for item in objects:
            path = self.path(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
            self.request("PATCH", path + "?fieldManager=tools-cluster&force=true", item, "application/apply-patch+yaml")


def wait_for(what, predicate, timeout, interval=0.1):
    """Asks PREDICATE until it answers something true, and returns that. It may raise ApiError or OSError meanwhile."""
    deadline = time.monotonic() + timeout
    error = None
    while True:
        try:
            if answer := predicate():
                return answer
            error = None
        except (ApiError, OSError, http.client.HTTPException) as failure:
            error = failure
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout} s" + (f" ({error})" if error else ""))
        time.sleep(interval)


def condition(item, kind):
    """The status of a condition of an object: "True", "False", "Unknown", or "" where there is none."""
    for entry in item.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry["status"]
    return ""
