"""The API of a cluster over connections that are kept: kubectl is too slow for a load."""
import base64
import http.client
import json
import re
import ssl
import tempfile
import urllib.parse


class Api:
    """One connection, as the administrator of a kubeconfig of `tfctl up`. Not thread-safe."""

    def __init__(self, kubeconfig, limit=10):
        with open(kubeconfig, encoding="utf-8") as file:
            text = file.read()
        value = lambda key: re.search(rf"{key}: (\S+)", text).group(1)
        self._address = urllib.parse.urlparse(value("server")).netloc
        self._limit = limit
        self._context = ssl.create_default_context(
            cadata=base64.b64decode(value("certificate-authority-data")).decode())
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(value("client-certificate-data")) + base64.b64decode(value("client-key-data")))
            pair.flush()
            self._context.load_cert_chain(pair.name)
        self._connection = None

    def call(self, method, path, body=None):
        """(status, object). OSError or HTTPException: the call may or may not have taken effect."""
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(self._address, timeout=self._limit, context=self._context)
        try:
            self._connection.request(method, path, body=None if body is None else json.dumps(body),
                                     headers={"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            raise

    def list(self, path):
        """All objects of a kind, page by page."""
        items, token = [], ""
        while True:
            status, page = self.call("GET", f"{path}?limit=1000&continue={urllib.parse.quote(token)}")
            if status != 200:
                raise AssertionError(f"GET {path}: {status} {page}")
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    def close(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None
